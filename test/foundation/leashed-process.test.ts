import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/foundation/clock.ts";
import { runLeashed, startLeashed } from "../../src/foundation/leashed-process.ts";
import { isAlive, untilGone } from "../live-processes.ts";

function start(command: string, ...args: string[]) {
  return startLeashed(command, args, { environment: process.env, clock: systemClock });
}

const node = (script: string) => start(process.execPath, "-e", script);

/** The processes of a group, in the order of their starts. */
function groupOf(leader: number): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const group = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[4];
    } catch {
      return "";
    }
  };
  return pids.filter((pid) => group(pid) === String(leader)).map(Number);
}

/** Takes no notice of the end of its stdin nor of SIGTERM, and starts a child of its own. */
const stubborn = `
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1000);
  const child = require("node:child_process").spawn("sleep", ["600"], { stdio: "ignore" });
  console.log(process.pid, child.pid);
`;

const pidsIn = (line: unknown) => String(line).trim().split(" ").map(Number);

describe("startLeashed", () => {
  it("passes stdin, arguments, both outputs and the exit code on", async () => {
    const program = start("sh", "-c", 'cat; echo "$1" >&2; exit 7', "sh", "two words");
    program.stdin.end("in\n");
    const [out, err] = await Promise.all([text(program.stdout), text(program.stderr)]);
    expect([out, err]).toEqual(["in\n", "two words\n"]);
    expect(await program.ended).toEqual({ how: "exit code 7", code: 7 });
  });

  it("runs programs, not words of the shell", async () => {
    const program = start("echo", "$HOME;", "*");
    expect(await text(program.stdout)).toBe("$HOME; *\n");
    expect((await start("exit", "3").ended).code).toBe(127);
  });

  it("ends the program and its children when the shell beside it is killed", async () => {
    const program = node(stubborn);
    const [line] = await once(program.stdout, "data");
    process.kill(program.pid!, "SIGKILL");
    expect(await program.ended).toEqual({ how: "signal SIGKILL", code: null });
    await untilGone(pidsIn(line));
  });

  it("ends the program and its children whichever shell beside it is killed", async (context) => {
    context.skip(process.platform !== "linux", "the shells of a group are found in /proc");
    const endWithout = async (at: number) => {
      const program = node(stubborn);
      const pids = pidsIn((await once(program.stdout, "data"))[0]);
      const shells = groupOf(program.pid!).filter((pid) => !pids.includes(pid));
      expect(shells).toHaveLength(3);
      process.kill(shells[at]!, "SIGKILL");
      program.kill();
      expect((await program.ended).how).toBe("signal SIGKILL");
      await untilGone(pids);
    };
    await Promise.all([0, 1, 2].map(endWithout));
  });

  it("says which signal ended it, and why it could not be started", async () => {
    const killed = await node("process.kill(process.pid, 'SIGSEGV')").ended;
    expect(killed).toEqual({ how: "signal SIGSEGV", code: null });
    expect((await start("no-such-program").ended).code).toBe(127);
    expect((await start("/tmp").ended).code).toBe(126);
    const options = { environment: {}, clock: systemClock, workingDirectory: "/no/such/folder" };
    expect((await startLeashed("true", [], options).ended).how).toContain("ENOENT");
  });

  it("asks it to end, or ends it with all that it started", async () => {
    const asked = node(
      "process.on('SIGTERM', () => process.exit(5)); console.log('on');" +
        "setInterval(() => {}, 1000)",
    );
    await once(asked.stdout, "data");
    asked.terminate();
    expect((await asked.ended).how).toBe("exit code 5");
    const program = node(stubborn);
    const pids = pidsIn((await once(program.stdout, "data"))[0]);
    program.terminate();
    program.kill();
    expect((await program.ended).how).toBe("signal SIGKILL");
    await untilGone(pids);
  });

  it("ends what a program leaves behind", async () => {
    const program = start("sh", "-c", "sleep 600 & echo $!");
    const pids = pidsIn(await text(program.stdout));
    expect(await program.ended).toEqual({ how: "exit code 0", code: 0 });
    await untilGone(pids);
  });

  it("lets nothing outlive a kill -9 of the process that started it", async () => {
    const holder = spawn(
      process.execPath,
      [join(import.meta.dirname, "leash-holder.ts"), process.execPath, "-e", stubborn],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const pids = pidsIn((await once(holder.stdout, "data"))[0]);
    expect(pids.map(isAlive)).toEqual([true, true]);
    holder.kill("SIGKILL");
    await untilGone(pids);
  });

  it("leaves signals for all processes to the program, and stays with it", async () => {
    const program = node(
      "process.on('SIGTERM', () => console.log('still'));console.log('on');" +
        "setInterval(() => {}, 1000)",
    );
    await once(program.stdout, "data");
    // As a scheduler does it: every process of the group gets the signal.
    process.kill(-program.pid!, "SIGTERM");
    expect(String((await once(program.stdout, "data"))[0])).toBe("still\n");
    program.kill();
    expect((await program.ended).how).toBe("signal SIGKILL");
  });
});

it("tells a missing program from one that misses another", async () => {
  const options = { env: process.env, timeoutMs: 10_000 };
  for (const absent of ["no-such-program", "/no/such/program"]) {
    await expect(runLeashed(absent, [], options)).rejects.toMatchObject({ code: "ENOENT" });
  }
  const script = ["-c", "exec no-such-program"];
  const { code, stderr } = await runLeashed("sh", script, options);
  expect([code, stderr]).toEqual([127, expect.stringContaining("no-such-program")]);
});
