import { describe, expect, it } from "vitest";
import { Program } from "../../../src/engines/command/program.ts";
import { ProgramModel } from "../../../src/engines/command/program-model.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import { rejectionOf } from "../engine-context.ts";
import { commandContext, promptRequest, scriptedProgram } from "./command-engine.ts";

const never = new AbortController().signal;

async function withModel(start: string, use: (model: ProgramModel) => Promise<void>) {
  const options = {
    ...{ command: process.execPath, args: [scriptedProgram, start], workingDirectory: undefined },
    ...{ environment: process.env, timeoutMs: 60_000 },
  };
  const program = new Program(options, commandContext());
  await program.open();
  try {
    await use(new ProgramModel(program, systemClock));
  } finally {
    await program.close();
  }
}

describe("ProgramModel", () => {
  it("sends what a program may want to know of a request, and nothing that is not there", () =>
    withModel("ready", async (model) => {
      const bare = promptRequest(4, "ECHO");
      const schema = { type: "object" };
      const full: InferenceRequest = {
        ...bare,
        origin: { index: 4, promptName: "answer", element: 2 },
        row: { id: 1 },
        structure: { schema, grammar: { rules: {}, root: "root" } as never },
      };
      const results = await model.run([bare, full], never);
      const item = { index: 4, promptName: "answer", prompt: "ECHO", parameters: { seed: 3 } };
      expect(results).toMatchObject([
        { answers: [{ value: item }] },
        { answers: [{ value: { ...item, element: 2, row: { id: 1 }, schema } }] },
      ]);
    }));

  it("leaves a wrong number of results to who forms the batches", () =>
    withModel("ready", async (model) => {
      const few = await model.run([promptRequest(0, "FEW"), promptRequest(1, "a")], never);
      expect(few).toHaveLength(1);
      expect(await model.run([promptRequest(0, "LISTLESS")], never)).toBe(undefined);
      const thrown = await rejectionOf(model.run([promptRequest(0, "THROW")], never));
      expect(thrown).toMatchObject({ code: "PREDICTION_FAILED" });
    }));

  it("does not send a batch that nobody waits for any more", () =>
    withModel("slow", async (model) => {
      const controller = new AbortController();
      const first = model.run([promptRequest(0, "a")], never);
      const second = rejectionOf(model.run([promptRequest(1, "EXIT")], controller.signal));
      controller.abort(new Error("no more"));
      expect((await second)!.message).toBe("no more");
      expect(await first).toMatchObject([{ answers: [{ text: "A" }] }]);
      expect(await model.run([promptRequest(2, "b")], never)).toMatchObject([
        { answers: [{ text: "B" }] },
      ]);
    }));
});
