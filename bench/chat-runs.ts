import { rmSync } from "node:fs";
import { join } from "node:path";
import { engineContext } from "../test/integration/llama-files.ts";
import type { ChatLoad } from "./chat-loads.ts";
import { runSluice } from "./program.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

/** How a load of chats was answered. */
export interface ChatRun {
  /** From the loaded engine until all is answered. */
  seconds: number;
  /** From the start of the program to the loaded engine; 0 where it was not noted. */
  loadSeconds: number;
  promptTokens: number;
  generatedTokens: number;
}

/**
 * One run of `sluice run-batch` over the load, from the loaded engine to the seal and the end of
 * the program.
 *
 * @param model options of the model.
 */
export async function runChats(
  setting: BenchSetting,
  load: ChatLoad,
  model: readonly string[],
  environment: Record<string, string> = {},
): Promise<ChatRun> {
  const directory = join(dataDirectory, "chats");
  rmSync(directory, { recursive: true, force: true });
  const output = join(directory, "out.jsonl");
  const args = ["run-batch", "-i", load.path, "-o", output, ...model, "--json"];
  let loadSeconds = 0;
  const run = await runSluice(setting, args, {
    environment: { SLUICE_HOME: engineContext.homeDirectory, ...environment },
    onLine: (line, seconds) => {
      if (line.includes('"type":"worker-start"')) loadSeconds = seconds;
    },
  });
  const summary = JSON.parse(run.stdout.trim().split("\n").at(-1)!) as Record<string, number>;
  const measured = {
    seconds: run.seconds - loadSeconds,
    loadSeconds,
    promptTokens: summary.prompt_tokens!,
    generatedTokens: summary.total_tokens_generated!,
  };
  showChatRun("sluice", load, measured);
  return measured;
}

/** Prints what a round took. */
export function showChatRun(who: string, { name }: ChatLoad, run: ChatRun): void {
  const load = run.loadSeconds > 0 ? ` and ${run.loadSeconds.toFixed(2)} s to load` : "";
  console.log(`${who}, ${name}: ${run.seconds.toFixed(2)} s${load}`);
}

/**
 * A comparison of different work would say nothing.
 *
 * @throws Error where one generated other than what was asked for, or read other prompts.
 */
export function assertSameWork({ name, bodies }: ChatLoad, own: ChatRun, peer: ChatRun): void {
  const wanted = bodies.reduce((sum, body) => sum + body.max_tokens, 0);
  for (const [who, { generatedTokens }] of Object.entries({ own, peer })) {
    if (generatedTokens !== wanted) {
      throw new Error(`${name}: ${who} generated ${generatedTokens} tokens, not ${wanted}`);
    }
  }
  const difference = Math.abs(own.promptTokens - peer.promptTokens);
  // One begin-of-text token more or less a prompt.
  if (difference > bodies.length) {
    throw new Error(`${name}: ${own.promptTokens} and ${peer.promptTokens} tokens of prompts`);
  }
}
