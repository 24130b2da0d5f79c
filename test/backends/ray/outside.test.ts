import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import type { RaySubmission } from "../../../src/backends/ray/jobs-client.ts";
import { openRayOutside } from "../../../src/backends/ray/outside.ts";
import { leadingCoordinator } from "../../../src/run/coordinate/coordinator.ts";
import { runStorage } from "../../../src/run/directory/run-storage.ts";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import type { RunResult } from "../../../src/run/status/run-result.ts";
import { localInputs } from "../../local-inputs.ts";
import { carriedOut, dependenciesOf, preparedRun, scratchFolder } from "../../run/whole-run.ts";

/** A dashboard whose one job, once it is submitted, is what `carryOut` does. */
async function dashboard(carryOut: () => Promise<RunResult>) {
  let job: (RaySubmission & { status: string; driver_exit_code?: number }) | undefined;
  let logs = "";
  const server = createServer(async (request, response) => {
    const { method, url = "" } = request;
    const say = (value: unknown) => response.end(JSON.stringify(value));
    if (url.startsWith("/api/packages")) return say({});
    if (url.endsWith("/logs")) return say({ logs });
    if (url !== "/api/jobs/") return say(job);
    if (method === "GET") return say(job ? [job] : []);
    job = { ...((await json(request)) as RaySubmission), status: "RUNNING" };
    void carryOut().then(({ summary, exitCode }) => {
      logs = JSON.stringify(summary);
      job = { ...job!, status: "SUCCEEDED", driver_exit_code: exitCode };
    });
    return say({});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it("has no machine to try things on, and says so", async () => {
  const outside = openRayOutside({ environment: {} } as never, "http://127.0.0.1:1");
  const { job } = preparedRun(scratchFolder());
  const rendered = outside.scheduled!.render(job, "/out", true);
  await expect(rendered).rejects.toMatchObject({ code: "UNSUPPORTED" });
});

describe("a sealed run, from outside of the cluster", () => {
  it("is followed to its new end while the head still reads the input", async () => {
    const reading = Promise.withResolvers<void>();
    const slowInputs: typeof localInputs = {
      ...localInputs,
      within(reach) {
        const stores = localInputs.within(reach);
        const open: typeof stores.open = async (...file) => {
          await reading.promise;
          return await stores.open(...file);
        };
        return { ...stores, open };
      },
    };
    const run = preparedRun(scratchFolder(), undefined, {
      model: { engine: "fake", latencyMs: 300, capacity: 4 },
    });
    const { summary: before } = await carriedOut(run);
    const dependencies = dependenciesOf({ inputs: slowInputs });
    const signal = new AbortController().signal;
    const address = await dashboard(() =>
      carriedOut({ ...run, dependencies }, signal, () => {}, true),
    );
    const ray = { address, shared: true, software: "installed" } as const;
    const job: JobSpec = { ...run.job, backend: "ray", ray: ray as never };
    const outside = openRayOutside({ environment: { HOME: run.folder } } as never, address);
    appendFileSync(run.job.input[0]!.path, '{"id": 99, "text": "one more"}\n');
    const followed = async () => {
      const events: RunEvent[] = [];
      const result = await outside.delegate!(job, {
        ...{ dependencies: dependenciesOf(), signal, onEvent: (event) => void events.push(event) },
        ...{ overwrite: true, extend: false, fork: false, install: false, isDetached: false },
      });
      return { result, started: events.find(({ type }) => type === "run-start") };
    };
    const first = followed();
    const storage = () => runStorage(run.dependencies.openStorage(run.location.directory));
    await expect.poll(async () => (await leadingCoordinator(storage()))?.number).toBe(2);
    // Another client finds the job.
    const second = followed();
    await pause(1500);
    reading.resolve();
    for (const { result, started } of await Promise.all([first, second])) {
      expect(result).toMatchObject({ wasSealed: false, summary: { rows: { total: 24 } } });
      expect(result!.summary.run_id).not.toBe(before.run_id);
      expect(started).toMatchObject({ runId: result!.summary.run_id, rows: 24 });
    }
  });
});
