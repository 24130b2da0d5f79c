import { type Clock, sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Engine } from "../engine.ts";
import type { ServerClient } from "./server-client.ts";
import type { ServerFacts } from "./server-launch.ts";
import type { ServerProcess } from "./server-process.ts";

/** Wait for the end of a server that no longer answers, before it is ended. */
const serverEndNoticeMs = 5000;

/** Errors of requests that a dead server may cause. */
const symptoms = new Set([
  "CONNECTION_LOST",
  "RESPONSE_MALFORMED",
  "SERVER_ERROR",
  "ENDPOINT_DOWN",
]);

/** A server that is ready, with the engine that uses it. */
export class LiveServer {
  readonly facts: ServerFacts;
  readonly engine: Engine;
  readonly process: ServerProcess;
  readonly #client: ServerClient;
  readonly #clock: Clock;
  #death: SluiceError | undefined;
  #examination: Promise<void> | undefined;

  constructor(
    facts: ServerFacts,
    engine: Engine,
    process: ServerProcess,
    client: ServerClient,
    clock: Clock,
  ) {
    this.facts = facts;
    this.engine = engine;
    this.process = process;
    this.#client = client;
    this.#clock = clock;
  }

  /** Records its end: all its requests are rejected. */
  async die(how: string): Promise<SluiceError> {
    const last = this.process.lines.at(-1);
    const detail = `${how}${last === undefined ? "" : `; its last line: ${last}`}`;
    this.#death = new SluiceError("ENGINE_DIED", detail);
    await this.#letGo();
    return this.#death;
  }

  /** The server's death, if it is behind a failed request. A server that is ill is ended. */
  async deathBehind(failure: unknown): Promise<SluiceError | undefined> {
    const isSymptom = failure instanceof SluiceError && symptoms.has(failure.code);
    if (this.#death === undefined && isSymptom) {
      this.#examination ??= this.#examine().finally(() => {
        this.#examination = undefined;
      });
      await this.#examination;
    }
    return this.#death;
  }

  /** Ends the server and the engine that uses it. */
  async close(): Promise<void> {
    await Promise.all([this.#letGo(), this.process.stop()]);
  }

  async #letGo(): Promise<void> {
    this.#client.close();
    await this.engine.close();
  }

  async #examine(): Promise<void> {
    if ((await this.#client.health()) !== "ill") return;
    const waiting = new AbortController();
    const patience = sleep(this.#clock, serverEndNoticeMs, waiting.signal).catch(() => {});
    await Promise.race([this.process.ended, patience]);
    waiting.abort();
    this.process.kill();
    await this.process.ended;
  }
}
