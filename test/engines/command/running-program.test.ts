import { describe, expect, it } from "vitest";
import { RunningProgram } from "../../../src/engines/command/running-program.ts";
import { rejectionOf } from "../engine-context.ts";
import { commandContext, scriptedProgram } from "./command-engine.ts";

function start(how: string, loadTimeoutMs = 60_000) {
  const context = commandContext();
  const options = {
    ...{ command: process.execPath, args: [scriptedProgram, how], workingDirectory: undefined },
    ...{ environment: process.env, timeoutMs: 60_000, loadTimeoutMs },
  };
  return { program: new RunningProgram(options, context), lines: context.lines };
}

const batch = (number: number, prompt: string) => ({
  batch: number,
  parameters: { max_new_tokens: 9 },
  items: [{ index: 0, promptName: "p", prompt, parameters: {} }],
});

describe("RunningProgram", () => {
  it("says when it is ready, answers, and ends with its stdin", async () => {
    const { program } = start("ready");
    expect(await program.ready).toMatchObject({ protocol: 1, name: "capitals" });
    const reply = await program.ask(batch(7, "hi"));
    expect(reply).toMatchObject({ type: "results", batch: 7, results: [{ text: "HI" }] });
    await program.close();
    expect(await program.ended).toBe("exit code 0");
    const late = await rejectionOf(program.ask(batch(8, "hi")));
    expect(late).toMatchObject({ code: "ENGINE_DIED" });
  });

  it("reads a prompt with separators of lines as one line", async () => {
    const { program } = start("ready");
    const reply = await program.ask(batch(1, "one\u2028two\u2029three"));
    expect(reply).toMatchObject({ results: [{ text: "ONE\u2028TWO\u2029THREE" }] });
    await program.close();
  });

  it("may say more of being ready, which is no part of the protocol", async () => {
    const { program, lines } = start("chatty");
    await program.ready;
    expect(await program.ask(batch(1, "hi"))).toMatchObject({ results: [{ text: "HI" }] });
    expect(lines.join("\n")).toContain('{"ready":true,"at":"later"}');
    await program.close();
  });

  it("is ended where it does not get ready in time", async () => {
    const { program } = start("waits", 400);
    const error = await rejectionOf(program.ready);
    expect(error).toMatchObject({ code: "ENGINE_START_FAILED" });
    expect(error!.message).toContain("not ready after 0.4 s");
    expect(await program.ended).toBe("not ready after 0.4 s (loadTimeoutMs)");
  });

  it("is ended where it writes a line without end", async () => {
    const { program } = start("floods");
    expect((await rejectionOf(program.ready))!.message).toContain("a line of more than 67108864");
  });

  it("is ended at once where it computes while it is closed", async () => {
    const { program } = start("ready");
    await program.ready;
    const asked = rejectionOf(program.ask(batch(0, "HANG")));
    await program.close();
    expect(await asked).toMatchObject({ code: "ENGINE_DIED" });
    expect(await program.ended).toBe("signal SIGKILL");
  });

  it("keeps of a bar of progress its last state", async () => {
    const { program, lines } = start("draws");
    expect((await rejectionOf(program.ready))!.message).toContain("after writing\n  100%");
    expect(lines).toContain("debug 100%");
  });
});
