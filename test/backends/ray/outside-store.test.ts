import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
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
  const delegate = await delegated((request, response) => {
    if (request.method === "GET") return response.end("[]");
    request.on("data", (chunk) => sent.push(String(chunk)));
    return request.on("end", () => response.writeHead(400).end("no room"));
  });
  await expect(delegate(rows, changes)).rejects.toMatchObject({ code: "SCHEDULER_REFUSED" });
  return JSON.parse(sent.join("")) as RaySubmission;
}

/** What delegates retries to a dashboard. */
async function delegated(reply: RequestListener) {
  const dashboard = createServer(reply);
  await new Promise<void>((resolve) => dashboard.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    dashboard.closeAllConnections();
    dashboard.close();
  });
  const { port } = dashboard.address() as AddressInfo;
  const environment = { HOME: scratchFolder() };
  const context = { environment } as unknown as BackendContext;
  const backend = openRayOutside(context, `http://127.0.0.1:${port}`);
  const place = { backend: "ray", ray: { software: "installed" } };
  return async (rows: RowsOfRetry, changes: Partial<JobInput> = {}) => {
    const job = jobSchema.parse({ ...smallJob, ...place, ...changes });
    const openStorage = () => memoryStorage();
    const call = { dependencies: { openStorage }, retry: rows, install: true };
    const rest = { signal: new AbortController().signal, onEvent() {} };
    return await backend.delegate!(job, { ...call, ...rest } as unknown as DelegatedCall);
  };
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

it("begins a retry after the job of a resume that found none", async () => {
  const jobs: (RaySubmission & { status: string; driver_exit_code?: number })[] = [];
  const delegate = await delegated(async (request, response) => {
    const { method, url = "" } = request;
    const say = (value: unknown) => response.end(JSON.stringify(value));
    if (url.startsWith("/api/packages")) return say({});
    if (url.endsWith("/logs")) return say({ logs: "" });
    const [named] = jobs.filter(({ submission_id: id }) => url.endsWith(`/${id}`));
    if (method === "GET") return say(named ?? jobs);
    jobs.push({ ...((await json(request)) as RaySubmission), status: "PENDING" });
    return say({});
  });
  const resumed = delegate({ where: "failed", unfinished: true });
  await expect.poll(() => jobs.length).toBe(1);
  const begun = delegate({ where: "failed" });
  const end = (at: number) =>
    Object.assign(jobs[at]!, { status: "SUCCEEDED", driver_exit_code: 0 });
  await pause(1000);
  end(0);
  expect(await resumed).toBeUndefined();
  await expect.poll(() => jobs.length, { timeout: 5000 }).toBe(2);
  end(1);
  expect(await begun).toBeUndefined();
  expect(jobs.map(({ entrypoint }) => entrypoint.endsWith("--unfinished"))).toEqual([true, false]);
});
