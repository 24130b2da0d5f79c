import { join } from "node:path";
import { openCommand } from "../../../src/engines/command/engine.ts";
import { type CommandModelOptions, commandModel } from "../../../src/engines/command/options.ts";
import type { Engine, EngineContext } from "../../../src/engines/engine.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import type { Logger } from "../../../src/foundation/logger.ts";
import { chatRequest, engineContext } from "../engine-context.ts";

/** The program of these tests, as a job names it. */
export const scriptedProgram = join(import.meta.dirname, "scripted-program.ts");

/** Options of a job whose program is the scripted one, started as `start` says. */
export function scripted(
  start: string,
  changes: Partial<CommandModelOptions> = {},
): CommandModelOptions {
  const args = [scriptedProgram, ...start.split(" ")];
  return {
    ...commandModel.parse({ engine: "command", command: process.execPath, args }),
    ...changes,
  };
}

/** A context of this process, with what was logged. */
export function commandContext(): EngineContext & { lines: string[] } {
  const lines: string[] = [];
  const logger: Logger = { log: (level, message) => void lines.push(`${level} ${message}`) };
  return { ...engineContext({ environment: process.env, logger }), lines };
}

/** Opens the engine, hands it over, and closes it in any case. */
export async function withCommand(
  options: CommandModelOptions,
  use: (engine: Engine, lines: readonly string[]) => Promise<void>,
): Promise<void> {
  const context = commandContext();
  const engine = await openCommand(options, context);
  try {
    await use(engine, context.lines);
  } finally {
    await engine.close();
  }
}

/** A request with a bare prompt. */
export function promptRequest(index: number, prompt: string): InferenceRequest {
  const { messages: _, ...request } = chatRequest(index);
  return { ...request, prompt };
}

/** The text of the only answer to a prompt. */
export async function answerTo(engine: Engine, prompt: string, index = 0): Promise<string> {
  const { signal } = new AbortController();
  const { answers } = await engine.infer(promptRequest(index, prompt), signal);
  return answers[0]!.text;
}
