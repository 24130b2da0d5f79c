import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Spawn } from "../../foundation/subprocess.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { EndedEarly, Restarting } from "../restarting.ts";
import { redactor } from "../secrets.ts";
import { LiveServer } from "./live-server.ts";
import { ServerClient } from "./server-client.ts";
import type { ServerFacts, ServerLaunch } from "./server-launch.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

/** Most ports to try in a row for a managed server, if others take them first. */
const maxServerPorts = 5;

export interface ServerAddress {
  /** Up to and including `/v1`. */
  baseUrl: string;
  key: string;
  facts: ServerFacts;
}

export interface ManagedEngineOptions {
  launch: ServerLaunch;
  context: Pick<EngineContext, "clock" | "random" | "logger" | "environment">;
  openEngine(address: ServerAddress): Promise<Engine>;
  spawn?: Spawn;
  /** Default: any free one. */
  choosePort?(): Promise<number>;
}

/**
 * Starts a server and opens an engine that uses it. When the server dies, all its requests are
 * rejected with `ENGINE_DIED`; the next `infer` starts it again, after a growing wait. The server
 * ends with this process, however that ends.
 *
 * @throws SluiceError `ENGINE_START_FAILED` with its last lines if the server ends before it
 *   answers, or does not answer within `loadTimeoutMs`.
 */
export async function openManagedEngine(options: ManagedEngineOptions): Promise<Engine> {
  const engine = new ManagedEngine(options);
  await engine.open();
  return engine;
}

/** The address at which managed servers listen: other machines cannot reach them. */
const serverHost = "127.0.0.1";

/** A port that is free at this moment. Another process may take it in the next. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, serverHost);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

class ManagedEngine implements Engine {
  readonly name: string;
  readonly #options: ManagedEngineOptions;
  readonly #redact: (text: string) => string;
  readonly #lives: Restarting<LiveServer>;
  /** The engine that uses the server, or used the last one that died. */
  #inner: Engine | undefined;
  #facts: Readonly<Record<string, Json>> = {};

  constructor(options: ManagedEngineOptions) {
    this.name = options.launch.name;
    this.#options = options;
    this.#redact = redactor(options.context.environment);
    this.#lives = new Restarting({
      name: this.name,
      start: () => this.#start(),
      context: options.context,
    });
  }

  get choices(): Readonly<Record<string, Json>> {
    return { ...this.#options.launch.choices, ...this.#facts, ...this.#inner?.choices };
  }

  get capacity(): number {
    return this.#inner?.capacity ?? 1;
  }

  /** Starts the server for the first time: a failure is final at once, not tried again. */
  async open(): Promise<void> {
    await this.#lives.open();
  }

  async infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    signal.throwIfAborted();
    const server = await this.#lives.live(signal);
    try {
      const response = await server.engine.infer(request, signal, onDelta);
      this.#lives.noteAnswer();
      return response;
    } catch (error) {
      signal.throwIfAborted();
      this.#lives.closing.throwIfAborted();
      throw (await server.deathBehind(error)) ?? error;
    }
  }

  async close(): Promise<void> {
    const server = await this.#lives.close();
    await server?.close();
  }

  async #start(): Promise<LiveServer> {
    for (let ports = 1; ; ports++) {
      try {
        return await this.#startAt(await (this.#options.choosePort ?? freePort)());
      } catch (error) {
        const isTaken = error instanceof ServerEndedEarly && error.isPortTaken;
        if (!isTaken || ports >= maxServerPorts) throw error;
      }
    }
  }

  async #startAt(port: number): Promise<LiveServer> {
    const { launch, context, openEngine, spawn } = this.#options;
    const { clock, logger, environment } = context;
    const key = newKey(context.random);
    const origin = `http://${serverHost}:${port}`;
    const process = startServerProcess({
      command: [...launch.command, "--host", serverHost, "--port", String(port)],
      environment: { ...environment, ...launch.environment, [launch.keyVariable]: key },
      redact: (text) => this.#redact(text).replaceAll(key, "[redacted]"),
      ...{ clock, spawn },
    });
    const client = new ServerClient(origin, key);
    try {
      const signal = this.#lives.closing;
      const facts = await untilReady({ launch, process, client, clock, logger, signal });
      const engine = await openEngine({ baseUrl: `${origin}/v1`, key, facts });
      const server = new LiveServer(facts, engine, process, client, clock);
      this.#describe(server);
      void process.ended.then(({ how }) => this.#onEnd(server, how));
      return server;
    } catch (error) {
      client.close();
      await process.stop();
      throw error;
    }
  }

  #describe({ engine, facts }: LiveServer): void {
    const { version, slots = null, contextTokens = null } = facts;
    this.#inner = engine;
    this.#facts = { version, slots, contextTokens };
  }

  async #onEnd(server: LiveServer, how: string): Promise<void> {
    if (!this.#lives.noteDeath()) return;
    const death = await server.die(how);
    this.#options.context.logger.log("warn", `${this.name} ended: ${death.message}`);
  }
}

/** Requests must carry it: on a shared machine, other users reach the port as well. */
function newKey(random: EngineContext["random"]): string {
  const digits = Array.from({ length: 4 }, () => Math.floor(random.next() * 2 ** 32));
  return digits.map((digit) => digit.toString(16).padStart(8, "0")).join("");
}

const serverHealthIntervalMs = 200;

/** Time between two lines of progress of a loading server. */
const serverProgressIntervalMs = 5000;

/** A server that was started and does not answer yet. */
interface LoadingServer {
  launch: Pick<ServerLaunch, "name" | "readFacts" | "loadTimeoutMs">;
  process: ServerProcess;
  client: ServerClient;
  clock: Clock;
  logger: Logger;
  /** Cancels the wait. */
  signal: AbortSignal;
}

/** Another port may work, or another moment. */
class ServerEndedEarly extends EndedEarly {
  /** Whether another program has its port. */
  readonly isPortTaken: boolean;

  constructor(name: string, how: string, lines: readonly string[]) {
    super(`${name}: ${how}`, lines, "look at its last lines, and at model.args");
    this.isPortTaken = lines.some((line) => portTaken.test(line));
  }
}

const portTaken = /address already in use|EADDRINUSE|couldn't bind|could not bind|failed to bind/i;

/**
 * Waits until a server answers, shows its last line from time to time, and returns its facts.
 *
 * @throws ServerEndedEarly; SluiceError `ENGINE_START_FAILED` after `loadTimeoutMs`; the signal's
 *   reason.
 */
async function untilReady(server: LoadingServer): Promise<ServerFacts> {
  const { launch, process, client, clock, logger, signal } = server;
  const startedMs = clock.monotonic();
  let shownMs = startedMs;
  for (;;) {
    signal.throwIfAborted();
    if (!process.isRunning) {
      const { how } = await process.ended;
      throw new ServerEndedEarly(launch.name, how, process.lines);
    }
    const facts = (await client.health()) === "well" ? await launch.readFacts(client) : undefined;
    // If ours has ended meanwhile, another server answered on this port.
    if (facts !== undefined && process.isRunning) return facts;
    const nowMs = clock.monotonic();
    const seconds = Math.round((nowMs - startedMs) / 1000);
    const line = process.lines.at(-1) ?? "nothing written yet";
    if (nowMs - startedMs >= launch.loadTimeoutMs) {
      const detail = `${launch.name} is not ready after ${seconds} s; its last line: ${line}`;
      const hint = "raise model.loadTimeoutMs, or look at its last line";
      throw new SluiceError("ENGINE_START_FAILED", detail, { hint });
    }
    if (nowMs - shownMs >= serverProgressIntervalMs) {
      shownMs = nowMs;
      logger.log("info", `${launch.name} is loading, ${seconds} s: ${line}`);
    }
    await sleep(clock, serverHealthIntervalMs, signal);
  }
}
