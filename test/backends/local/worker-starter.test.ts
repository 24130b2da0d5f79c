import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { WorkerStarter } from "../../../src/backends/local/worker-process.ts";
import { entryCommand } from "../../../src/entry.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import type { WorkerHandle } from "../../../src/run/dispatch/dispatch.ts";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import type { FromWorker } from "../../../src/run/worker/protocol.ts";

const nowhere = join(tmpdir(), "sluice-no-such-run");
const jobWith = (env: JobSpec["env"]) => ({ env }) as JobSpec;
const starter = new WorkerStarter({
  command: entryCommand("cli/main", process.execPath),
  environment: process.env,
  logger: silentLogger,
});

function firstMessage({ channel }: WorkerHandle): Promise<FromWorker> {
  return new Promise((resolve) => channel.onMessage(resolve));
}

describe("WorkerStarter", () => {
  afterEach(() => starter.close());

  it("tells the worker that it started ahead which run it is for", async () => {
    starter.startAhead();
    const worker = starter.start(nowhere, jobWith({}), 1);
    const message = await firstMessage(worker);
    expect(message).toMatchObject({ type: "worker-failed", error: { code: "NOT_A_RUN" } });
    expect(await worker.ended).toBe("left with code 64");
  });

  it("starts a further worker on the run itself", async () => {
    const message = await firstMessage(starter.start(nowhere, jobWith({}), 1));
    expect(message).toMatchObject({ type: "worker-failed", error: { code: "NOT_A_RUN" } });
  });

  it("takes a new process where the job has variables of its own", async () => {
    starter.startAhead();
    const worker = starter.start(nowhere, jobWith({ NODE_OPTIONS: "--no-such-option" }), 1);
    expect(await worker.ended).toMatch(/^left with code 9/);
  });

  it("takes a new process where the worker has variables of its own", async () => {
    starter.startAhead();
    const own = { NODE_OPTIONS: "--no-such-option" };
    const worker = starter.start(nowhere, jobWith({ NODE_OPTIONS: "" }), 1, own);
    expect(await worker.ended).toMatch(/^left with code 9/);
  });
});
