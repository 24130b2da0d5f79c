import { readFile } from "node:fs/promises";
import type { FastifyInstance } from "fastify";
import type { OpenStorage } from "../data/storage/open.ts";
import type { EngineContext } from "../engines/engine.ts";
import { SluiceError } from "../foundation/errors.ts";
import { randomUuid } from "../foundation/ids.ts";
import { rowTimeoutMs } from "./batches/batch-run.ts";
import { Batches } from "./batches/batches.ts";
import { FileStore } from "./batches/file-store.ts";
import { type AnsweredFacts, guard, isPublic, listen, openListener } from "./listener.ts";
import { Metrics } from "./metrics.ts";
import { Models } from "./models.ts";
import { answerRoutes } from "./openai/answers.ts";
import { batchRoutes } from "./openai/batches.ts";
import { writeFailure } from "./openai/failure.ts";
import { fileRoutes } from "./openai/files.ts";
import type { Scope, ServeOptions } from "./options.ts";
import { ServedModel } from "./served-model.ts";
import { Tokens } from "./tokens.ts";

/** A running server. */
export interface Server {
  /** The addresses that it listens on, such as `http://127.0.0.1:8080`, by what they serve. */
  readonly addresses: Readonly<Record<keyof ServeOptions["listen"], string>>;
  /** Takes no more requests, waits for those in work as long as it may, and unloads the models. */
  close(): Promise<void>;
}

export interface ServerContext extends EngineContext {
  /** Called for each answered request, if the options want an access log. */
  logAccess(facts: AnsweredFacts): void;
  openStorage: OpenStorage;
}

/** How often the connections of a server that ends are looked through for idle ones. */
const idleCheckMs = 100;

const scopeOf: Readonly<Record<keyof ServeOptions["listen"], Scope>> = {
  inference: "infer",
  management: "manage",
  metrics: "metrics",
};

/**
 * Loads the models and serves them over HTTP until it is closed.
 *
 * @throws SluiceError `JOB_INVALID` for an address that others reach without tokens,
 *   `LISTEN_FAILED`; the reason why a model cannot be loaded.
 * @example
 * const options = serveSchema.parse({ models: { chat: "smollm2-135m-instruct" } });
 * const server = await startServer(options, context);
 * await server.close();
 */
export async function startServer(options: ServeOptions, context: ServerContext): Promise<Server> {
  assertSafe(options);
  const tls = options.tls && {
    certificate: await readFile(options.tls.certificate, "utf8"),
    key: await readFile(options.tls.key, "utf8"),
  };
  const server = new RunningServer(options, tls, context);
  try {
    await server.open();
    return server;
  } catch (error) {
    await server.close();
    throw error;
  }
}

function assertSafe({ listen: addresses, tokens, insecure }: ServeOptions): void {
  if (tokens.length > 0 || insecure) return;
  for (const [name, address] of Object.entries(addresses)) {
    if (!isPublic(address)) continue;
    throw new SluiceError("JOB_INVALID", `${address} can be reached from other machines`, {
      field: `listen.${name}`,
      hint: "give tokens, listen on 127.0.0.1, or say --insecure",
    });
  }
}

class RunningServer implements Server {
  addresses: Record<keyof ServeOptions["listen"], string>;
  readonly #options: ServeOptions;
  readonly #tls: { certificate: string; key: string } | undefined;
  readonly #context: ServerContext;
  readonly #models = new Models();
  readonly #metrics = new Metrics(this.#models);
  readonly #listeners = new Map<string, FastifyInstance>();
  /** The secret by which workers of the server's own batches say so. */
  readonly #batchToken: string;
  /** Answers the rows of batches, whatever the other listeners are. */
  #rows: FastifyInstance | undefined;
  #batches: Batches | undefined;
  #isReady = false;

  constructor(
    options: ServeOptions,
    tls: { certificate: string; key: string } | undefined,
    context: ServerContext,
  ) {
    this.#options = options;
    this.#tls = tls;
    this.#context = context;
    this.#batchToken = randomUuid(context.random);
    this.addresses = { ...options.listen };
  }

  async open(): Promise<void> {
    const { listen: addresses, models, limits } = this.#options;
    const tokens = new Tokens(this.#options.tokens, this.#batchToken);
    const stored = await this.#openStored();
    const kinds = Object.keys(addresses) as (keyof typeof addresses)[];
    for (const kind of kinds) {
      const listener = this.#listenerAt(addresses[kind]);
      await listener.register(async (scope) => {
        guard(scope, tokens, scopeOf[kind]);
        this.#addRoutes(kind, scope, stored);
      });
    }
    // Answers that it is alive while it loads.
    for (const [address, listener] of this.#listeners) {
      const bound = await listen(listener, address);
      const protocol = this.#tls ? "https" : "http";
      for (const kind of kinds) {
        if (addresses[kind] === address) this.addresses[kind] = `${protocol}://${bound}`;
      }
    }
    const serving = { limits, observer: this.#metrics };
    for (const [name, given] of Object.entries(models)) {
      const model = await ServedModel.open(name, given, serving, this.#context);
      this.#models.add(model);
      this.#context.logger.log("info", `${name} is loaded`, { ...model.choices });
    }
    const rows = await this.#listenForRows(stored.batches, tokens);
    stored.batches.begin((id) => `http://${rows}/batches/${id}/v1`);
    this.#isReady = true;
  }

  async close(): Promise<void> {
    this.#isReady = false;
    const { clock } = this.#context;
    const listeners = [...this.#listeners.values()];
    const batches = this.#batches?.close();
    const stopping = new SluiceError("SERVER_STOPPING");
    for (const model of this.#models.all()) model.refuse(stopping);
    const cancel = clock.schedule(this.#options.limits.drainTimeoutMs, () => {
      for (const { server } of listeners) server.closeAllConnections();
      this.#rows?.server.closeAllConnections();
    });
    const stopped = batches?.then(() => this.#rows?.close());
    const closed = Promise.all([stopped, ...listeners.map((listener) => listener.close())]);
    // A connection whose last answer has just been sent would stay open for the next request.
    const closeIdle = () => {
      for (const { server } of listeners) server.closeIdleConnections();
      cancelNext = clock.schedule(idleCheckMs, closeIdle);
    };
    let cancelNext = clock.schedule(idleCheckMs, closeIdle);
    await closed;
    cancelNext();
    cancel();
    await this.#models.close();
  }

  #listenerAt(address: string): FastifyInstance {
    const known = this.#listeners.get(address);
    if (known) return known;
    const { limits, accessLog } = this.#options;
    const { clock, random } = this.#context;
    const listener = openListener({
      ...{ limits, tls: this.#tls, clock, random, writeError: writeFailure },
      onAnswered: (facts) => {
        this.#metrics.requestAnswered(facts);
        if (accessLog) this.#context.logAccess(facts);
      },
    });
    listener.get("/livez", async () => ({ status: "alive" }));
    listener.get("/readyz", async (_request, reply) => {
      if (!this.#isReady) void reply.status(503);
      return { status: this.#isReady ? "ready" : "not ready" };
    });
    this.#listeners.set(address, listener);
    return listener;
  }

  async #openStored(): Promise<Stored> {
    const { clock, random, logger, environment } = this.#context;
    const storage = this.#context.openStorage(this.#options.dataDirectory);
    const files = await FileStore.open(storage, clock, random);
    this.#batches = await Batches.open({
      ...{ options: this.#options, storage, files, models: this.#models, token: this.#batchToken },
      ...{ clock, random, logger, environment },
    });
    return { files, batches: this.#batches };
  }

  /** @returns its address: this machine alone reaches it, and only with the token of batches. */
  async #listenForRows(batches: Batches, tokens: Tokens): Promise<string> {
    const { clock, random } = this.#context;
    const rows = openListener({
      limits: { ...this.#options.limits, requestTimeoutMs: rowTimeoutMs },
      ...{ tls: undefined, clock, random, writeError: writeFailure },
      onAnswered: (facts) => this.#metrics.requestAnswered(facts),
    });
    this.#rows = rows;
    const addRoutes = async (scope: FastifyInstance) => {
      guard(scope, tokens, "infer");
      scope.addHook("onRequest", async (request) => {
        if (request.caller.priority !== "batch") throw new SluiceError("TOKEN_INVALID");
        if (request.method === "GET") return;
        request.batchStop = batches.stopOf((request.params as { batch: string }).batch);
        request.batchStop.throwIfAborted();
      });
      answerRoutes(scope, { models: this.#models, clock });
    };
    await rows.register(addRoutes, { prefix: "/batches/:batch" });
    return await listen(rows, "127.0.0.1:0");
  }

  #addRoutes(kind: keyof ServeOptions["listen"], server: FastifyInstance, stored: Stored): void {
    if (kind === "metrics") {
      server.get("/metrics", async (_request, reply) => {
        void reply.type(this.#metrics.contentType);
        return this.#metrics.text();
      });
    }
    if (kind === "inference") {
      const { clock } = this.#context;
      answerRoutes(server, { models: this.#models, clock });
      fileRoutes(server, { files: stored.files, limits: this.#options.limits, clock });
      batchRoutes(server, stored.batches);
    }
  }
}

interface Stored {
  files: FileStore;
  batches: Batches;
}
