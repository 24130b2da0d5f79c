import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import type { BackendContext, DelegatedCall } from "../../../src/backends/context.ts";
import type { RaySubmission } from "../../../src/backends/ray/jobs-client.ts";
import { openRayOutside } from "../../../src/backends/ray/outside.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";
import type { RowsOfRetry } from "../../../src/run/retry/plan-retry.ts";
import { scratchFolder } from "../../run/whole-run.ts";
import { smallJob } from "../small-job.ts";

/** What is submitted for a retry. */
async function submitted(rows: RowsOfRetry, changes: Partial<JobInput> = {}) {
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
  const place = { backend: "ray", ray: { software: "installed" } };
  const job = jobSchema.parse({ ...smallJob, ...place, ...changes });
  const openStorage = () => memoryStorage();
  const call = { dependencies: { openStorage }, retry: rows, install: true };
  const signal = new AbortController().signal;
  await expect(
    backend.delegate!(job, { ...call, signal } as unknown as DelegatedCall),
  ).rejects.toMatchObject({ code: "SCHEDULER_REFUSED" });
  return JSON.parse(sent.join("")) as RaySubmission;
}

it("gives the coordinator of a retry the object store of the job", async () => {
  const store = { endpoint: "https://s3.test", pathStyle: true };
  const { entrypoint } = await submitted({ where: "failed" }, { store });
  expect(entrypoint).toContain("--store.endpoint https://s3.test --store.pathStyle true");
});

it("has a coordinator resume a retry as the job of that retry, and begin none", async () => {
  const [begun, resumed] = await Promise.all(
    [false, true].map((unfinished) => submitted({ where: "failed", unfinished })),
  );
  expect(resumed!.entrypoint).toBe(`${begun!.entrypoint} --unfinished`);
  expect(resumed!.metadata).toEqual(begun!.metadata);
});
