import { describe, expect, it } from "vitest";
import { Program } from "../../../src/engines/command/program.ts";
import type { CommandItem } from "../../../src/engines/command/protocol.ts";
import { rejectionOf } from "../engine-context.ts";
import { commandContext, scriptedProgram } from "./command-engine.ts";

function program(start: string): Program {
  const options = {
    ...{ command: process.execPath, args: [scriptedProgram, start], workingDirectory: undefined },
    ...{ environment: process.env, timeoutMs: 60_000 },
  };
  return new Program(options, commandContext());
}

const item = (prompt: string): CommandItem => ({
  index: 0,
  promptName: "p",
  prompt,
  parameters: {},
});
const ask = (asked: Program, prompt: string) => asked.ask({ max_new_tokens: 9 }, [item(prompt)]);

describe("Program", () => {
  it("numbers its batches over all of its lives", async () => {
    const asked = program("ready");
    const first = await asked.open();
    expect(first).toMatchObject({ name: "capitals", pid: expect.any(Number) });
    expect(await ask(asked, "a")).toMatchObject({ batch: 0, results: [{ text: "A" }] });
    expect(await rejectionOf(ask(asked, "EXIT"))).toMatchObject({ code: "ENGINE_DIED" });
    expect(await ask(asked, "b")).toMatchObject({ batch: 2, results: [{ text: "B" }] });
    await asked.close();
    expect(await rejectionOf(ask(asked, "c"))).toMatchObject({ code: "ENGINE_DIED" });
  });

  it("fails at once where its first start fails", async () => {
    const asked = program("ends");
    expect(await rejectionOf(asked.open())).toMatchObject({ code: "ENGINE_START_FAILED" });
    await asked.close();
  });

  it("may be closed while it starts", async () => {
    const asked = program("waits");
    const opening = rejectionOf(asked.open());
    await asked.close();
    expect(await opening).toMatchObject({ code: "ENGINE_START_FAILED" });
  });
});
