import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import type { FastifyInstance } from "fastify";
import { rayDashboard } from "../backends/context.ts";
import type { OpenStorage } from "../data/storage/open.ts";
import type { EngineContext } from "../engines/engine.ts";
import { SluiceError } from "../foundation/errors.ts";
import { randomUuid } from "../foundation/ids.ts";
import type { Logger } from "../foundation/logger.ts";
import { type LeaderRecord, Leadership } from "../run/coordinate/leadership.ts";
import type { Processes } from "../run/coordinate/processes.ts";
import { rowTimeoutMs } from "./batches/batch-run.ts";
import { Batches } from "./batches/batches.ts";
import { FileStore } from "./batches/file-store.ts";
import { DeviceFigures } from "./device-figures.ts";
import {
  guard,
  isPublic,
  listen,
  openListener,
  type RequestFacts,
  type WriteError,
} from "./listener.ts";
import { Metrics } from "./metrics.ts";
import { Models } from "./models.ts";
import { answerRoutes } from "./openai/answers.ts";
import { batchRoutes } from "./openai/batches.ts";
import { writeFailure } from "./openai/failure.ts";
import { fileRoutes } from "./openai/files.ts";
import { transcriptionRoutes } from "./openai/transcriptions.ts";
import type { Scope, ServeOptions } from "./options.ts";
import type { SharedResources } from "./placed-workers.ts";
import { traceRequests } from "./request-spans.ts";
import { ServedModel } from "./served-model.ts";
import { ofModel } from "./server-file.ts";
import { BatchToken, Tokens } from "./tokens.ts";
import { descriptionRoutes } from "./torchserve/predictions.ts";
import { sendFailure } from "./torchserve/replies.ts";
import { TorchServeWire } from "./torchserve/wire.ts";

export interface Server {
  /** The addresses that it listens on, such as `http://127.0.0.1:8080`, by what they serve. */
  readonly addresses: Readonly<Record<Kind, string>>;
  /** The names of its models. */
  readonly models: readonly string[];
  /** Aborted if it must end, because another server has its data directory now. */
  readonly lost: AbortSignal;
  /** Takes no more requests, waits for those in work as long as it may, and unloads the models. */
  close(): Promise<void>;
}

export interface ServerContext extends EngineContext {
  /** Called for each request at its end, if the options want an access log. */
  logAccess(facts: RequestFacts): void;
  openStorage: OpenStorage;
  processes: Processes;
  resources: SharedResources;
}

/** How often the connections of a server that ends are looked through for idle ones. */
const idleCheckMs = 100;

/** Where servers of a data directory say that they live. */
const serversPrefix = "servers/";

type Kind = keyof ServeOptions["listen"];

const scopeOf: Readonly<Record<Kind, Scope>> = {
  inference: "infer",
  management: "manage",
  metrics: "metrics",
};

/**
 * Loads the models and serves them over HTTP until it is closed.
 *
 * @param signal ends the start before the next model is loaded.
 * @throws SluiceError `SERVER_INVALID` for an address that others reach without tokens, and for TLS
 *   without its files; `LISTEN_FAILED`; `SERVER_RUNNING` if another server has the data directory;
 *   the reason why a model cannot be loaded; the signal's reason.
 * @example
 * const options = serveSchema.parse({ models: { chat: "smollm2-135m-instruct" } });
 * const server = await startServer(options, context);
 * await server.close();
 */
export async function startServer(
  options: ServeOptions,
  context: ServerContext,
  signal?: AbortSignal,
): Promise<Server> {
  assertSafe(options, context.logger);
  assertJoins(options, context);
  const tls = options.tls && (await readTls(options.tls));
  const server = new RunningServer(options, tls, context);
  try {
    await server.open(signal);
    return server;
  } catch (error) {
    await server.close();
    throw error;
  }
}

function assertSafe({ listen: addresses, tokens, insecure }: ServeOptions, logger: Logger): void {
  const open = Object.entries(addresses).filter(([, address]) => isPublic(address));
  const [first] = open;
  if (first === undefined || tokens.length > 0) return;
  const [name, address] = first;
  if (!insecure) {
    throw new SluiceError("SERVER_INVALID", `${address} can be reached from other machines`, {
      field: `listen.${name}`,
      hint: "give tokens, listen on 127.0.0.1, or say --insecure",
    });
  }
  const all = [...new Set(open.map(([, each]) => each))].join(", ");
  logger.log("warn", `there are no tokens: everybody who reaches ${all} may use this server`);
}

/** A server that dies must take its coordinators along: they are not sent to a cluster. */
function assertJoins({ batches: { backend, ray } }: ServeOptions, context: ServerContext): void {
  const dashboard = backend === "ray" ? rayDashboard({ ray }, context.environment) : undefined;
  if (dashboard === undefined) return;
  throw new SluiceError("SERVER_INVALID", `${dashboard} is the address of a dashboard`, {
    field: "batches.ray.address",
    hint: "run the server on a node of the cluster, and give HOST:PORT of the head, as head:6379",
  });
}

interface Tls {
  certificate: string;
  key: string;
}

/** @throws SluiceError `SERVER_INVALID` for a file that is missing, or not what it must be. */
async function readTls(paths: Tls): Promise<Tls> {
  const read = (kind: keyof Tls) =>
    readFile(paths[kind], "utf8").catch((cause: Error) => {
      const hint = "check the path";
      throw new SluiceError("SERVER_INVALID", cause.message, { field: `tls.${kind}`, cause, hint });
    });
  const [certificate, key] = [await read("certificate"), await read("key")];
  try {
    createSecureContext({ cert: certificate, key });
  } catch (cause) {
    const detail = `its files are not a certificate and its key in PEM: ${(cause as Error).message}`;
    throw new SluiceError("SERVER_INVALID", detail, { field: "tls", cause });
  }
  return { certificate, key };
}

class RunningServer implements Server {
  addresses: Record<Kind, string>;
  readonly #options: ServeOptions;
  readonly #tls: Tls | undefined;
  readonly #context: ServerContext;
  readonly #models = new Models();
  readonly #devices: DeviceFigures;
  readonly #metrics: Metrics;
  readonly #torchServe: TorchServeWire;
  readonly #listeners = new Map<Kind, FastifyInstance>();
  /** The secret by which workers of the server's own batches say so. */
  readonly #batchToken: string;
  /** Answers the rows of batches, whatever the other listeners are. */
  #rows: FastifyInstance | undefined;
  #batches: Batches | undefined;
  #isReady = false;
  #leadership: Leadership | undefined;
  readonly #lost = new AbortController();

  constructor(options: ServeOptions, tls: Tls | undefined, context: ServerContext) {
    this.#options = options;
    this.#tls = tls;
    this.#context = context;
    this.#devices = new DeviceFigures(context);
    this.#metrics = new Metrics(this.#models, this.#devices);
    this.#torchServe = new TorchServeWire(options, this.#models, this.#metrics, context);
    this.#batchToken = randomUuid(context.random);
    this.addresses = { ...options.listen };
    const { models, archives } = options;
    const variants = Object.values(models).flatMap((given) => Object.keys(given.variants));
    const loaded = archives.load.flatMap(({ name }) => name ?? []);
    this.#models.coming = new Set([...Object.keys(models), ...loaded, ...variants]);
  }

  get models(): string[] {
    return this.#models.all().map(({ name }) => name);
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async open(signal?: AbortSignal): Promise<void> {
    const { listen: addresses } = this.#options;
    await this.#takeDataDirectory();
    void this.#devices.begin();
    const tokens = new Tokens(this.#options);
    const stored = await this.#openStored();
    const kinds = Object.keys(addresses) as Kind[];
    for (const kind of kinds) this.#listeners.set(kind, this.#listenerOf(kind));
    for (const [kind, listener] of this.#listeners) {
      await listener.register(async (scope) => {
        guard(scope, tokens, scopeOf[kind]);
        await this.#addRoutes(kind, scope, stored);
      });
    }
    // Answers that it is alive while it loads.
    for (const listener of new Set(this.#listeners.values())) {
      const own = kinds.filter((kind) => this.#listeners.get(kind) === listener);
      const bound = await listen(listener, addresses[own[0]!]);
      const protocol = this.#tls ? "https" : "http";
      for (const kind of own) this.addresses[kind] = `${protocol}://${bound}`;
    }
    await this.#load(signal);
    stored.batches.begin(`http://${await this.#listenForRows(stored.batches)}`);
    this.#isReady = true;
  }

  async #load(signal: AbortSignal | undefined): Promise<void> {
    const { models, limits } = this.#options;
    const serving = { limits, observer: this.#metrics };
    for (const [name, given] of Object.entries(models)) {
      signal?.throwIfAborted();
      const model = await ServedModel.open(name, given, serving, this.#context).catch(
        (thrown: unknown) => {
          throw ofModel(name, thrown);
        },
      );
      this.#torchServe.add(model, given);
      this.#context.logger.log("info", `${name} is loaded`, { ...model.choices });
    }
    signal?.throwIfAborted();
    await this.#torchServe.load();
    this.#models.coming = new Set();
  }

  async close(): Promise<void> {
    this.#isReady = false;
    this.#devices.close();
    const { clock } = this.#context;
    const batches = this.#batches?.close();
    const stopping = new SluiceError("SERVER_STOPPING");
    this.#torchServe.refuse(stopping);
    const listeners = [...new Set(this.#listeners.values())];
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
    await this.#torchServe.close();
    await this.#leadership?.end();
  }

  /** Two servers would carry out each batch twice, and remove each other's unfinished uploads. */
  async #takeDataDirectory(): Promise<void> {
    const { clock, random, processes } = this.#context;
    const { dataDirectory } = this.#options;
    const storage = this.#context.openStorage(dataDirectory);
    const taken = (leader: LeaderRecord | undefined) =>
      new SluiceError("SERVER_RUNNING", `process ${leader?.pid} on ${leader?.host}`, {
        ...{ file: dataDirectory, hint: "end it, or give this one another folder with --data" },
      });
    const leadership = await Leadership.acquire(
      {
        ...{ storage, clock, processes, id: randomUuid(random), prefix: serversPrefix },
        errors: { lives: taken, lost: taken },
      },
      {},
    );
    // A record with a lower number may have been made again after its removal by another server.
    await leadership.assertLeads();
    await leadership.writeHeartbeat();
    for await (const { path } of storage.list(serversPrefix)) {
      if (Number.parseInt(path.slice(serversPrefix.length), 10) < leadership.record.number) {
        await storage.remove(path);
      }
    }
    leadership.keep({
      assertLeads: () => leadership.assertLeads(),
      onLost: (error) => this.#lost.abort(error),
    });
    this.#leadership = leadership;
  }

  /** The listener of a kind, which those with one address share; port 0 is a new one each time. */
  #listenerOf(kind: Kind): FastifyInstance {
    const { listen: addresses } = this.#options;
    const address = addresses[kind];
    for (const [other, known] of this.#listeners) {
      if (addresses[other] === address && !address.endsWith(":0")) return known;
    }
    const { limits, accessLog } = this.#options;
    const { clock, random, telemetry } = this.#context;
    const log = (facts: RequestFacts) => {
      if (accessLog) this.#context.logAccess(facts);
    };
    const listener = openListener({
      ...{ limits, tls: this.#tls, clock, random, writeError, onCut: log },
      onAnswered: (facts) => {
        this.#metrics.requestAnswered(facts);
        this.#torchServe.metrics.replied(facts.status);
        log(facts);
      },
    });
    if (telemetry) traceRequests(listener, telemetry);
    descriptionRoutes(listener, kind === "management");
    listener.get("/livez", async () => ({ status: "alive" }));
    listener.get("/readyz", async (_request, reply) => {
      if (!this.#isReady) void reply.status(503);
      return { status: this.#isReady ? "ready" : "not ready" };
    });
    return listener;
  }

  async #openStored(): Promise<Stored> {
    const { clock, random, logger, environment, telemetry } = this.#context;
    const storage = this.#context.openStorage(this.#options.dataDirectory);
    const files = await FileStore.open(storage, clock, random);
    this.#batches = await Batches.open({
      ...{ options: this.#options, storage, files, models: this.#models, token: this.#batchToken },
      ...{ clock, random, logger, environment, telemetry },
    });
    return { files, batches: this.#batches };
  }

  /** @returns its address: this machine alone reaches it, and only with the token of batches. */
  async #listenForRows(batches: Batches): Promise<string> {
    const { clock, random, telemetry } = this.#context;
    const rows = openListener({
      // Its clients are the batches, each with as many connections as it has rows in flight.
      limits: { ...this.#options.limits, requestTimeoutMs: rowTimeoutMs, maxConnections: Infinity },
      ...{ tls: undefined, clock, random, writeError: writeRowError },
      onAnswered: (facts) => this.#metrics.requestAnswered(facts),
    });
    if (telemetry) traceRequests(rows, telemetry, true);
    this.#rows = rows;
    const token = new BatchToken(this.#batchToken);
    rows.addHook("onRequest", (request, _reply, done) => {
      request.caller = token.callerOf(request.headers.authorization);
      done();
    });
    const addRoutes = async (scope: FastifyInstance) => {
      scope.addHook("onRequest", (request, _reply, done) => {
        const { batch } = request.params as { batch: string };
        // Rows of a small batch do not wait for all those of a large one.
        request.caller = { ...request.caller, name: batch };
        request.shut = batches.shutOf(batch);
        done();
      });
      answerRoutes(scope, { models: this.#models, clock });
    };
    // Apart from the routes of callers: in figures and traces, too.
    await rows.register(addRoutes, { prefix: "/batches/:batch" });
    return await listen(rows, "127.0.0.1:0");
  }

  async #addRoutes(kind: Kind, server: FastifyInstance, stored: Stored): Promise<void> {
    const { clock } = this.#context;
    if (kind === "metrics") {
      server.get("/metrics", async (request, reply) => {
        void reply.type(this.#metrics.contentType);
        const { "name[]": names } = request.query as { "name[]"?: string | string[] };
        // As clients of TorchServe choose families; the server's own have no counterpart there.
        if (names !== undefined) return this.#torchServe.metrics.text([names].flat());
        return `${await this.#metrics.text()}\n${await this.#torchServe.metrics.text()}`;
      });
    }
    if (kind === "inference") {
      answerRoutes(server, { models: this.#models, clock });
      transcriptionRoutes(server, { models: this.#models, limits: this.#options.limits, clock });
      fileRoutes(server, { files: stored.files, limits: this.#options.limits, clock });
      batchRoutes(server, stored.batches);
      const isReady = () => this.#isReady;
      await server.register(async (scope) => this.#torchServe.addInference(scope, isReady));
    }
    if (kind === "management") {
      const isAlone = this.#listeners.get("inference") !== this.#listeners.get("management");
      await server.register(async (scope) => this.#torchServe.addManagement(scope, isAlone));
    }
  }
}

interface Stored {
  files: FileStore;
  batches: Batches;
}

/** A row that was not let in stays open: it has no answer that its worker could write down. */
const writeRowError: WriteError = (error, reply, { shut }) => {
  if (error !== shut?.reason) return writeFailure(error, reply);
  reply.hijack();
  reply.raw.destroy();
};

/** Below `/v1` are OpenAI's calls; everything else is TorchServe's. */
const writeError: WriteError = (error, reply, request) => {
  const isOpenAi =
    /^\/v1(\/|$|\?)/.test(request.url) && !/:(predict|explain)(\?|$)/.test(request.url);
  if (isOpenAi) return writeFailure(error, reply);
  sendFailure(error, reply, request);
};
