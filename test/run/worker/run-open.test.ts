import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { channelPair, jsonLinesChannel } from "../../../src/foundation/channel.ts";
import type { FromWorker, ToWorker } from "../../../src/run/worker/protocol.ts";
import { untilRunOpen } from "../../../src/run/worker/run-open.ts";

const runOpen: ToWorker = { type: "run-open", location: "/runs/a", generation: 2 };
const stop: ToWorker = { type: "worker-stop", graceMs: 10 };

describe("untilRunOpen", () => {
  it("gives the run, and what comes after it to the next listener, in order", async () => {
    const [coordinator, worker] = channelPair<ToWorker, FromWorker>();
    const opening = untilRunOpen(worker);
    coordinator.send(runOpen);
    coordinator.send({ type: "task-run", task: 1 });
    coordinator.send(stop);
    const opened = await opening;
    expect(opened?.run).toEqual(runOpen);
    await Promise.resolve();
    const got: ToWorker[] = [];
    opened?.rest.onMessage((message) => got.push(message));
    coordinator.send({ type: "task-cancel", task: 1 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(got).toEqual([{ type: "task-run", task: 1 }, stop, { type: "task-cancel", task: 1 }]);
  });

  it("gives nothing when the channel closes first", async () => {
    const [coordinator, worker] = channelPair<ToWorker, FromWorker>();
    const opening = untilRunOpen(worker);
    coordinator.close();
    expect(await opening).toBeUndefined();
  });

  it("refuses what is no message", async () => {
    const input = new PassThrough();
    const opening = untilRunOpen(jsonLinesChannel(input, new PassThrough()));
    input.write("{torn\n");
    await expect(opening).rejects.toMatchObject({ code: "PROTOCOL" });
  });

  it("refuses another first message", async () => {
    const [coordinator, worker] = channelPair<ToWorker, FromWorker>();
    const opening = untilRunOpen(worker);
    coordinator.send(stop);
    await expect(opening).rejects.toMatchObject({ code: "PROTOCOL" });
  });
});
