import { join } from "node:path";
import { type ProcessEnd, pause, runSluice, startSluice } from "./chaos/sluice-process.ts";

/** A task as `fleet task list --json` prints it. */
export interface ListedTask {
  index: string;
  id: string;
  state: string;
  resultCode: number | null;
  worker: string | null;
  cause: string | null;
  row: number;
}

/** What a person does with fleets in a folder. */
export class FleetCalls {
  readonly folder: string;
  readonly #environment: Readonly<Record<string, string>>;

  constructor(folder: string, environment: Readonly<Record<string, string>> = {}) {
    this.folder = folder;
    this.#environment = { SLUICE_HOME: join(folder, "home"), ...environment };
  }

  call(...words: string[]): Promise<ProcessEnd> {
    return runSluice(words, this.folder, this.#environment);
  }

  start(...words: string[]) {
    return startSluice(words, this.folder, this.#environment);
  }

  /** Calls `sluice fleet`, and fails where that fails. */
  async fleet(...words: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.call("fleet", ...words);
    if (code !== 0) throw new Error(`sluice fleet ${words.join(" ")}: ${code}\n${stderr}`);
    return stdout;
  }

  async json<Value>(...words: string[]): Promise<Value[]> {
    const text = await this.fleet(...words, "--json");
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Value);
  }

  tasks(name: string): Promise<ListedTask[]> {
    return this.json<ListedTask>("task", "list", "--name", name);
  }

  async get(name: string) {
    const [fleet] = await this.json<{
      state: string;
      reason: string | null;
      tasks: Record<string, number>;
      runs: { location: string; reason: string | null; state: string }[];
    }>("get", "--name", name);
    return fleet!;
  }

  /** Waits until nobody works on a fleet. */
  async untilOver(name: string, maxMs = 120_000) {
    const endMs = performance.now() + maxMs;
    for (;;) {
      const fleet = await this.get(name);
      if (fleet.state !== "running" && fleet.state !== "pending") return fleet;
      if (performance.now() > endMs) throw new Error(`still ${JSON.stringify(fleet)}`);
      await pause(200);
    }
  }
}
