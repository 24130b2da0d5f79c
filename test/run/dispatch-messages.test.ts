import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { jsonLinesChannel } from "../../src/foundation/channel.ts";
import { limits } from "../../src/foundation/limits.ts";
import { protocolVersion } from "../../src/run/worker/protocol.ts";
import { dispatching, untilStarted } from "./dispatching.ts";
import { settled } from "./scripted-engine.ts";

describe("messages of workers", () => {
  it("stop the run where the worker is of another version, and say what to do", async () => {
    const { worker, ended } = dispatching(1);
    await settled();
    await worker(0).ready(4, protocolVersion + 1);
    expect(worker(0).heard).toMatchObject([{ type: "worker-stop" }]);
    await worker(0).die("left with code 0");
    const { error } = await ended;
    expect(error).toMatchObject({ code: "PROTOCOL_DIFFERS", exitCode: 64 });
    expect(error?.message).toContain(`protocol ${protocolVersion + 1}, this process 1`);
    expect(error?.hint).toContain("same version of sluice on every host");
  });

  it("are ignored where they are of an unknown type, with one line for each", async () => {
    const { worker, events, ended } = dispatching(1);
    await settled();
    await worker(0).ready();
    for (let time = 0; time < 3; time++) {
      worker(0).channel.send({ type: "worker-mood", mood: "fine" } as never);
    }
    await settled();
    expect(events.filter(({ type }) => type === "notice")).toEqual([
      { type: "notice", message: expect.stringContaining("worker-mood") as unknown },
    ]);
    await worker(0).end(0);
    await worker(0).die("left with code 0");
    expect((await ended).committed).toBe(1);
  });

  it("that are no JSON end the worker, and the run where each one does so", async () => {
    const lines = () => {
      const input = new PassThrough();
      input.write("Debugger attached.\n");
      const gone = Promise.withResolvers<string>();
      return {
        channel: jsonLinesChannel<never, never>(input, new PassThrough()),
        kill: () => gone.resolve("ended by SIGKILL"),
        ended: gone.promise,
      };
    };
    let starts = 0;
    const run = dispatching(1, {
      startWorker: async () => {
        starts++;
        return lines();
      },
    });
    const { error } = await run.clock.run(run.ended);
    expect(error?.code).toBe("ENGINE_START_FAILED");
    expect(error?.message).toContain("no JSON object: Debugger attached.");
    expect(starts).toBe(limits.maxEngineStarts);
  });
});

describe("failed rows of a lost attempt", () => {
  it("are told once, though they fail again", async () => {
    const run = dispatching(1);
    const errors = (count: number) => ({ SERVER_ERROR: { count, message: "busy" } });
    await settled();
    await run.worker(0).ready();
    await run.worker(0).progress(0, { failed: 2, errors: errors(2) });
    await run.worker(0).die();
    await untilStarted(run, 2);
    await run.worker(1).ready();
    await run.worker(1).progress(0, { failed: 1, errors: errors(1) });
    await run.worker(1).end(0, { failed: 3, errors: errors(3) });
    const told = run.events.flatMap((event) => (event.type === "row-error" ? event.count : []));
    expect(told).toEqual([2, 1]);
  });
});

describe("rows that fail elsewhere", () => {
  it("count against the budget", async () => {
    const { dispatcher, worker, ended } = dispatching(1, { maxFailedRows: 3, failedBefore: 1 });
    await settled();
    await worker(0).ready();
    dispatcher.addFailedElsewhere(2);
    await settled();
    expect(worker(0).heard.at(-1)).toMatchObject({ type: "task-run" });
    dispatcher.addFailedElsewhere(1);
    await settled();
    expect(worker(0).heard.at(-1)).toMatchObject({ type: "worker-stop" });
    await worker(0).die();
    expect((await ended).error?.code).toBe("TOO_MANY_FAILED_ROWS");
  });
});
