import { join } from "node:path";
import { backendConformance } from "../conformance/backend-conformance.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { writeScheduledJob } from "../scheduled-job.ts";

backendConformance("local", {
  beforeEach: () => {},
  person(rows) {
    const folder = scratchFolder();
    writeScheduledJob(folder, rows, "workers: { max: 2 }\n");
    return { folder, out: "out", stored: join(folder, "out"), environment: {} };
  },
});
