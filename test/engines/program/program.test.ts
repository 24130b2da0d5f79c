import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { containerCommand } from "../../../src/engines/program/container.ts";
import { openProgram } from "../../../src/engines/program/engine.ts";
import { programModel } from "../../../src/engines/program/options.ts";
import { programTask, taskVariables } from "../../../src/engines/program/task.ts";
import { programFailure, resultCodeOf } from "../../../src/engines/program-failure.ts";
import { type Clock, systemClock } from "../../../src/foundation/clock.ts";
import { locatedError, SluiceError } from "../../../src/foundation/errors.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { isRunning } from "../../chaos/sluice-process.ts";
import { isAlive, untilGone } from "../../live-processes.ts";
import { scratchFolder } from "../../run/whole-run.ts";
import { engineContext, rejectionOf } from "../engine-context.ts";

const optionsOf = (given: object = {}) => programModel.parse({ engine: "program", ...given });

const environment = { PATH: process.env.PATH };

describe("engine program", () => {
  const request = (row: JsonObject, index = 0) => ({
    row,
    parameters: { ...greedyParameters, maxNewTokens: 1, seed: 1 },
    origin: { index, promptName: "row" },
  });
  const never = new AbortController().signal;

  it("answers a row by the end of its command", async () => {
    const engine = await openProgram(optionsOf(), engineContext({ environment }));
    const { answers } = await engine.infer(request({ cmds: ["true"] }), never);
    expect(answers).toMatchObject([{ value: { exitCode: 0 }, finishReason: "stop", tokens: 0 }]);
    const failed = await rejectionOf(
      engine.infer(request({ cmds: ["sh", "-c", "exit 4"] }), never),
    );
    expect(failed).toMatchObject({ code: "PROGRAM_FAILED", retryable: true });
    await engine.close();
  });

  it("runs as many side by side as it has instances, and no more", async () => {
    const engine = await openProgram(optionsOf({ instances: 2 }), engineContext({ environment }));
    const marks = join(scratchFolder(), "marks");
    // Two meet; a third one beside them would have come by the end of the sleep.
    const text = `echo begin >> ${marks}
      until [ $(grep -c begin ${marks}) -ge 2 ]; do sleep 0.02; done
      sleep 0.2; echo end >> ${marks}`;
    const meeting = [1, 2, 3].map(() => engine.infer(request({ cmds: ["sh", "-c", text] }), never));
    await Promise.all(meeting);
    let [running, most] = [0, 0];
    for (const mark of readFileSync(marks, "utf8").trim().split("\n")) {
      running += mark === "begin" ? 1 : -1;
      most = Math.max(most, running);
    }
    expect([running, most]).toEqual([0, 2]);
    await engine.close();
  });

  it("knows a program that ended in time while this process could not look", async () => {
    const timeoutMs = 151;
    const file = join(scratchFolder(), "keeper");
    const keeper = () => (existsSync(file) ? Number(readFileSync(file, "utf8")) : 0);
    const stall = () => {
      const startMs = performance.now();
      const isOver = () => keeper() !== 0 && !isRunning(keeper());
      for (let ms = 0; ms < timeoutMs + 10 || !isOver(); ms = performance.now() - startMs) {
        if (ms > 30_000) throw new Error("the program did not end");
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      }
    };
    const clock: Clock = {
      ...systemClock,
      schedule(delayMs, callback) {
        const cancel = systemClock.schedule(delayMs, callback);
        if (delayMs === timeoutMs) stall();
        return cancel;
      },
    };
    const context = engineContext({ environment, clock });
    const engine = await openProgram(optionsOf({ timeoutMs }), context);
    // The parent of the program is the shell that keeps it on its leash.
    const row = { cmds: ["sh", "-c", `echo $PPID > ${file}`] };
    const { answers } = await engine.infer(request(row), never);
    expect(answers).toMatchObject([{ value: { exitCode: 0 } }]);
    const late = rejectionOf(engine.infer(request({ cmds: ["sleep", "600"] }), never));
    expect(await late).toMatchObject({ code: "PROGRAM_TIMED_OUT" });
    await engine.close();
  });

  it("ends programs that nobody wants, and all when it is closed", async () => {
    const engine = await openProgram(optionsOf({ instances: 2 }), engineContext({ environment }));
    const stop = new AbortController();
    const folder = scratchFolder();
    /** A program, and another one that it has started, once they run. */
    const startLong = async (name: string, signal: AbortSignal) => {
      const file = join(folder, name);
      const text = `sleep 600 & echo $$ $! > ${file}; wait`;
      const rejected = rejectionOf(engine.infer(request({ cmds: ["sh", "-c", text] }), signal));
      const pids = () =>
        existsSync(file) ? readFileSync(file, "utf8").split(" ").map(Number) : [];
      await expect.poll(pids).toHaveLength(2);
      return { rejected, pids: pids() };
    };
    const unwanted = await startLong("unwanted", stop.signal);
    const closed = await startLong("closed", never);
    const reason = new Error("unwanted");
    stop.abort(reason);
    expect(await unwanted.rejected).toBe(reason);
    await untilGone(unwanted.pids);
    expect(closed.pids.map(isAlive)).toEqual([true, true]);
    await engine.close();
    expect(await closed.rejected).toMatchObject({ code: "ENGINE_DIED" });
    await untilGone(closed.pids);
  });
});

describe("the task of a row", () => {
  it("takes from the job what the row lacks", () => {
    const options = optionsOf({ command: ["python", "app.py"], args: ["all"] });
    expect(programTask({}, 4, options)).toEqual({
      ...{
        row: 4,
        index: "4",
        id: "4",
        cmds: ["python", "app.py"],
        args: ["all"],
        environment: {},
      },
    });
    const own = { cmds: ["ls"], args: ["-l"], env: { A: "1" }, idx: "x", id: "u" };
    expect(programTask(own, 4, options)).toEqual({
      ...{ row: 4, index: "x", id: "u", cmds: ["ls"], args: ["-l"], environment: { A: "1" } },
    });
  });

  it("refuses what is not a command", () => {
    const rows: [row: JsonObject, field: string][] = [
      [{}, "cmds"],
      [{ cmds: "ls" }, "cmds"],
      [{ cmds: ["ls"], args: [1] }, "args"],
      [{ cmds: ["ls"], env: { A: 1 } }, "env"],
      [{ cmds: ["ls"], env: { "A=B": "1" } }, "env"],
      [{ cmds: ["ls"], idx: " " }, "idx"],
    ];
    for (const [row, field] of rows) {
      const refused = { code: "COMMAND_INVALID", place: expect.objectContaining({ field }) };
      expect(() => programTask(row, 0, optionsOf())).toThrow(expect.objectContaining(refused));
    }
    // An image has a command of its own.
    expect(programTask({}, 0, optionsOf({ image: "tool" })).cmds).toEqual([]);
  });

  it("has its own variables last", () => {
    const task = programTask({ cmds: ["a"], env: { CE_FLEET_NAME: "other" } }, 0, optionsOf());
    expect(taskVariables(task, optionsOf())).toMatchObject({ CE_FLEET_NAME: "other" });
  });
});

describe("the result code of a failure", () => {
  it("is read from what was written", () => {
    const ends: [how: string, code: number | undefined][] = [
      ["exit code 3", 3],
      ["signal SIGKILL", 137],
      ["signal SIGSEGV", 139],
      ["spawn ENOENT", undefined],
    ];
    for (const [how, code] of ends) {
      for (const lastLine of ["", "signal SIGHUP; exit code 9"]) {
        for (const timeoutMs of [undefined, 5000]) {
          const failure = programFailure({ how, timeoutMs, lastLine });
          expect(resultCodeOf(failure.message), failure.message).toBe(code);
          const located = locatedError(failure, { file: "commands.jsonl", line: 7 });
          expect(resultCodeOf(located.message)).toBe(code);
        }
      }
    }
    expect(resultCodeOf(new SluiceError("ROW_KILLS_ENGINE", "row 5").message)).toBe(undefined);
  });
});

describe("a program in a container", () => {
  const call = {
    ...{ image: "example/tool:1", name: "sluice-7", args: ["0.txt"] },
    ...{ variables: ["SLUICE_TASK_INDEX"], binds: [{ path: "/input", place: "/home/x" }] },
  };

  it("has the task's words in place of the image's", () => {
    const cmds = ["python", "app.py"];
    expect(containerCommand({ ...call, runtime: "docker", cmds, devices: "0,1" })).toEqual([
      ...["docker", "run", "--rm", "--init", "--name", "sluice-7", "--env", "SLUICE_TASK_INDEX"],
      ...["--volume", "/home/x:/input", "--gpus", '"device=0,1"', "--entrypoint", "python"],
      ...["example/tool:1", "app.py", "0.txt"],
    ]);
    expect(containerCommand({ ...call, runtime: "podman", cmds: [], devices: "1" })).toEqual([
      ...["podman", "run", "--rm", "--init", "--name", "sluice-7", "--env", "SLUICE_TASK_INDEX"],
      ...["--volume", "/home/x:/input", "--device", "nvidia.com/gpu=1"],
      ...["example/tool:1", "0.txt"],
    ]);
  });
});
