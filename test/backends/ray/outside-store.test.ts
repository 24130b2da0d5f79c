import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import type { BackendContext, DelegatedCall } from "../../../src/backends/context.ts";
import { openRayOutside } from "../../../src/backends/ray/outside.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { jobSchema } from "../../../src/run/job/schema.ts";
import { scratchFolder } from "../../run/whole-run.ts";
import { smallJob } from "../small-job.ts";

it("gives the coordinator of a retry the object store of the job", async () => {
  const sent: string[] = [];
  const dashboard = createServer((request, response) => {
    if (request.method === "GET") return response.end("[]");
    request.on("data", (chunk) => sent.push(String(chunk)));
    return request.on("end", () => response.writeHead(400).end("no room"));
  });
  await new Promise<void>((resolve) => dashboard.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void dashboard.close());
  const { port } = dashboard.address() as AddressInfo;
  const environment = { HOME: scratchFolder() };
  const context = { environment } as unknown as BackendContext;
  const backend = openRayOutside(context, `http://127.0.0.1:${port}`);
  const store = { endpoint: "https://s3.test", pathStyle: true };
  const job = jobSchema.parse({
    ...smallJob,
    backend: "ray",
    ray: { software: "installed" },
    store,
  });
  const openStorage = () => memoryStorage();
  const call = { dependencies: { openStorage }, retry: { where: "failed" }, install: true };
  const signal = new AbortController().signal;
  await expect(
    backend.delegate!(job, { ...call, signal } as unknown as DelegatedCall),
  ).rejects.toMatchObject({ code: "SCHEDULER_REFUSED" });
  expect(JSON.parse(sent.join("")).entrypoint).toContain(
    "--store.endpoint https://s3.test --store.pathStyle true",
  );
});
