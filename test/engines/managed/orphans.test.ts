import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isRunning } from "../../chaos/sluice-process.ts";
import { StandIn, untilGone } from "./managed-engines.ts";
import type { StandInBehaviour } from "./stand-in-server.ts";

const holder = fileURLToPath(new URL("./server-holder.ts", import.meta.url));

let standIn: StandIn;
let worker: ChildProcess | undefined;

beforeEach(() => {
  standIn = new StandIn();
});

afterEach(() => {
  worker?.kill("SIGKILL");
  standIn.remove();
});

/** A process that holds a server with a child of its own, and both pids. */
async function startWorker(behaviour: Partial<StandInBehaviour>) {
  const model = JSON.stringify(standIn.model({ hasChild: true, ...behaviour }));
  worker = spawn(process.execPath, [holder, model], {
    stdio: ["ignore", "pipe", "inherit"],
    // A group of its own, which signals can be sent to.
    detached: true,
  });
  await once(worker.stdout!, "data");
  const [start] = standIn.starts;
  return { worker, server: start!.pid, child: start!.child! };
}

describe("a managed server leaves no orphan", () => {
  it("when its worker is killed", async () => {
    const { worker, server, child } = await startWorker({});
    expect([server, child].map(isRunning)).toEqual([true, true]);
    worker.kill("SIGKILL");
    await untilGone(server);
    await untilGone(child);
  });

  it("when it takes no notice of SIGTERM", async () => {
    const { worker, server, child } = await startWorker({ ignoresSigterm: true });
    worker.kill("SIGKILL");
    await untilGone(server);
    await untilGone(child);
  });

  it("when the worker's whole process group is killed", async () => {
    const { worker, server, child } = await startWorker({});
    process.kill(-worker.pid!, "SIGKILL");
    await untilGone(server);
    await untilGone(child);
  });

  it("and is not reached by Ctrl-C, which its worker lives through", async () => {
    const { worker } = await startWorker({});
    process.kill(-worker.pid!, "SIGINT");
    const [line] = (await once(worker.stdout!, "data")) as [Buffer];
    expect(line.toString()).toBe("re: still here\n");
  });
});
