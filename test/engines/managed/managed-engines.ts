import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { EngineContext } from "../../../src/engines/engine.ts";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { openEngine } from "../../../src/engines/registry.ts";
import { greedyParameters, type InferenceRequest } from "../../../src/foundation/inference.ts";
import { isRunning, pause } from "../../chaos/sluice-process.ts";
import { engineContext } from "../engine-context.ts";
import type { StandInBehaviour, StandInEvent } from "./stand-in-server.ts";

/** What starts the stand-in server. */
export const standInCommand = [
  process.execPath,
  fileURLToPath(new URL("./stand-in-server.ts", import.meta.url)),
];

/** A folder with the log of one stand-in server, and engine options that start it. */
export class StandIn {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-managed-"));
  readonly log = join(this.folder, "log.jsonl");

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** What it logged so far. */
  get events(): StandInEvent[] {
    if (!existsSync(this.log)) return [];
    const lines = readFileSync(this.log, "utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as StandInEvent);
  }

  get starts(): (StandInEvent & { event: "start" })[] {
    return this.events.filter((it) => it.event === "start");
  }

  get prompts(): string[] {
    return this.events.flatMap((it) => (it.event === "ask" ? [it.prompt] : []));
  }

  /** `model` of a job that starts it as vLLM. */
  model(behaviour: Partial<StandInBehaviour> = {}, options: Record<string, unknown> = {}) {
    const args = ["--behave", JSON.stringify({ log: this.log, ...behaviour })];
    return {
      ...{ engine: "vllm", name: "owner/model", command: standInCommand, maxInFlight: 4 },
      ...{ args, ...options },
    };
  }

  open(
    context: Partial<EngineContext> = {},
    behaviour: Partial<StandInBehaviour> = {},
    options: Record<string, unknown> = {},
  ) {
    const model = modelOptions.parse(this.model(behaviour, options));
    return openEngine(model, engineContext({ random: { next: () => 0 }, ...context }));
  }
}

/** A completion request. */
export const request = (prompt: string, index = 0): InferenceRequest => ({
  origin: { index, promptName: "p" },
  prompt,
  onTooLong: "fail",
  parameters: { ...greedyParameters, maxNewTokens: 20, seed: 0 },
});

/** Waits until a process is gone; a test that waits in vain runs into its own time limit. */
export async function untilGone(pid: number): Promise<void> {
  while (isRunning(pid)) await pause(10);
}
