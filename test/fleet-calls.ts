import { join } from "node:path";
import { runDependencies } from "../src/api/run-dependencies.ts";
import { thisProcess } from "../src/api/this-process.ts";
import { absoluteLocation } from "../src/data/storage/open.ts";
import { silentLogger } from "../src/foundation/logger.ts";
import type { RunDependencies } from "../src/run/dependencies.ts";
import { openFleet } from "../src/run/fleet/fleet.ts";
import { type FleetTask, readFleet } from "../src/run/fleet/fleet-status.ts";
import { type ProcessEnd, pause, runSluice, startSluice } from "./chaos/sluice-process.ts";
import { callHere } from "./cli/call.ts";

/** What a person does with fleets in a folder. */
export class FleetCalls {
  readonly folder: string;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #dependencies: RunDependencies;

  constructor(folder: string, environment: Readonly<Record<string, string>> = {}) {
    this.folder = folder;
    this.#environment = { SLUICE_HOME: join(folder, "home"), ...environment };
    const own = { ...process.env, ...this.#environment };
    this.#dependencies = runDependencies({ ...thisProcess(), environment: own }, silentLogger);
  }

  call(...words: string[]): Promise<ProcessEnd> {
    return runSluice(words, this.folder, this.#environment);
  }

  /** The same in this process, by the sources: for what is refused, and starts nothing. */
  callHere(...words: string[]): Promise<ProcessEnd> {
    return callHere(words, this.folder, this.#environment);
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

  /** What `fleet task list --json` prints, by the same code, without a process for each look. */
  async tasks(name: string): Promise<FleetTask[]> {
    return (await this.#read(name, true)).tasks;
  }

  /** What `fleet get --json` prints, likewise. */
  async get(name: string) {
    return (await this.#read(name)).status;
  }

  /** What `fleet worker list --json` prints, likewise. */
  async workers(name: string) {
    return (await this.#read(name)).workers;
  }

  async #read(name: string, hasTasks = false) {
    const root = absoluteLocation(this.folder, this.#environment.SLUICE_FLEETS ?? "fleets");
    const fleet = await openFleet(root, { name }, this.#dependencies);
    return readFleet(fleet, { ...this.#dependencies, hasTasks });
  }

  /** Waits until nobody works on a fleet. A look at one in a store is many requests. */
  async untilOver(name: string, maxMs = 120_000) {
    const lookIntervalMs = this.#environment.SLUICE_FLEETS === undefined ? 300 : 1000;
    const endMs = performance.now() + maxMs;
    for (;;) {
      const fleet = await this.get(name);
      if (fleet.state !== "running" && fleet.state !== "pending") return fleet;
      if (performance.now() > endMs) throw new Error(`still ${JSON.stringify(fleet)}`);
      await pause(lookIntervalMs);
    }
  }
}
