import { setImmediate } from "node:timers/promises";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { type CommandEntry, commandTable } from "../../src/cli/command.ts";
import type { CliIo } from "../../src/cli/io.ts";
import { runCommandLine } from "../../src/cli/program.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { stubIo } from "./io-stub.ts";

const loaded: string[] = [];
const entry = (name: string, register: (command: Command, io: CliIo) => void): CommandEntry => ({
  name,
  summary: `do ${name}`,
  load: async () => {
    loaded.push(name);
    return { register };
  },
});

const commands = [
  entry("greet", (command, io) => {
    command
      .argument("<name>")
      .option("--loudness <n>")
      .option("--generation.temperature <n>")
      .option("--listen <address>")
      .action((name: string) => void io.stdout.write(`hello ${name}\n`));
  }),
  entry("refuse", (command) => {
    command.action(() => {
      throw new SluiceError("STORE_FULL", "no space", { hint: "free some" });
    });
  }),
  entry("break", (command) => {
    command.action(() => {
      throw new TypeError("x is undefined");
    });
  }),
  entry("model", (command, io) => {
    command.command("pull <name>").action(() => void io.stdout.write("pulled\n"));
  }),
];

async function call(...args: string[]) {
  loaded.length = 0;
  const { io, written, state } = stubIo();
  await runCommandLine(args, io, { version: "1.2.3", commands });
  await setImmediate();
  return { ...written, exitCode: state.exitCode, loaded: [...loaded] };
}

describe("runCommandLine", () => {
  it("loads only the command that runs", async () => {
    const { stdout, exitCode, loaded: seen } = await call("greet", "you");
    expect({ stdout, exitCode, seen }).toEqual({
      stdout: "hello you\n",
      exitCode: undefined,
      seen: ["greet"],
    });
  });

  it("prints version and help without loading any command", async () => {
    expect(await call("--version")).toMatchObject({ stdout: "1.2.3\n", loaded: [] });
    const help = await call("--help");
    expect(help.stdout).toContain("do greet");
    expect(help).toMatchObject({ loaded: [], exitCode: undefined });
    expect((await call("help", "greet")).stdout).toContain("--loudness");
  });

  it("prints help to stderr and fails when nothing is asked", async () => {
    const { stdout, stderr, exitCode } = await call();
    expect(stdout).toBe("");
    expect(stderr).toContain("Usage: sluice");
    expect(exitCode).toBe(64);
  });

  it("names the nearest command, option, and last part of a key", async () => {
    const command = await call("gret");
    expect(command.stderr).toContain("unknown command gret; did you mean greet?");
    expect(command.exitCode).toBe(64);
    const option = await call("greet", "you", "--loudnes", "3");
    expect(option.stderr).toContain("error OPTION_UNKNOWN");
    expect(option.stderr).toContain("did you mean --loudness?");
    expect(option.stderr).toContain("hint: see sluice greet --help");
    expect(option.exitCode).toBe(64);
    const key = await call("greet", "you", "--temprature=3");
    expect(key.stderr).toContain("did you mean --generation.temperature?");
    expect((await call("greet", "you", "--port", "8080")).stderr).toContain("mean --listen?");
    const below = await call("model", "pul");
    expect(below.stderr).toContain("unknown command pul; did you mean pull?");
  });

  it("refuses missing and surplus arguments", async () => {
    expect((await call("greet")).stderr).toContain("error USAGE");
    expect((await call("greet", "a", "b")).exitCode).toBe(64);
    expect((await call("model")).stderr).toContain("name one of pull");
  });

  it("prints an error with its hint and takes its exit code", async () => {
    const { stderr, exitCode } = await call("refuse");
    expect(stderr).toBe("error STORE_FULL: the disk is full: no space\n  hint: free some\n");
    expect(exitCode).toBe(74);
  });

  it("prints the stack of what nobody foresaw", async () => {
    const { stderr, exitCode } = await call("break");
    expect(stderr).toContain("error INTERNAL");
    expect(stderr).toContain("program.test.ts");
    expect(exitCode).toBe(70);
  });

  it("ends quietly when the reader of its output has gone", async () => {
    const { io, written, state, closeOutput } = stubIo();
    const quiet = entry("quiet", (command) => {
      command.action(() => {
        closeOutput();
        throw Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
      });
    });
    await runCommandLine(["quiet"], io, { version: "1", commands: [quiet] });
    expect({ stderr: written.stderr, exitCode: state.exitCode }).toEqual({
      stderr: "",
      exitCode: undefined,
    });
  });
});

describe("commandTable", () => {
  it("has every command once", () => {
    const names = commandTable.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toEqual(expect.arrayContaining(["run", "plan", "worker", "doctor", "init"]));
  });
});
