import { systemClock } from "../../foundation/clock.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { BackendContext, OpenBackend } from "../context.ts";
import { joiningBackend } from "../joining/joining.ts";
import { assertSeen } from "../joining/places.ts";
import { CodeEngineClient } from "./client.ts";
import { renderFleet, workerProfileFor } from "./render.ts";

/** Serverless fleets of IBM Code Engine: one task a worker. */
export function openCodeEngine({ environment }: BackendContext): OpenBackend {
  const client = new CodeEngineClient({ environment, clock: systemClock });
  return joiningBackend({
    name: "code-engine",
    render: renderFleet,
    async check(job: JobSpec) {
      // Mounts of buckets can neither create a file once nor rename one.
      assertSeen(job, () => false, "use s3://bucket/out: mounted data stores cannot hold a run");
      if (job.codeEngine?.workerProfile === undefined) workerProfileFor(job.workers);
    },
    client,
  });
}
