import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import type { EngineContext } from "../../engines/engine.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Models } from "../models.ts";
import type { ServedModelOptions, ServeOptions } from "../options.ts";
import type { ModelObserver, ServedModel } from "../served-model.ts";
import { managementRoutes } from "./management.ts";
import { TorchServeMetrics } from "./metrics.ts";
import { ModelStore } from "./model-store.ts";
import { predictionRoutes } from "./predictions.ts";
import { Registry, type WorkerSettings } from "./registry.ts";
import { Refusal } from "./replies.ts";

/** The version of models that have none of their own. */
const firstVersion = "1.0";

/** TorchServe's wire of a server: its inference and its management address. */
export class TorchServeWire {
  readonly metrics = new TorchServeMetrics();
  readonly #options: ServeOptions;
  readonly #context: EngineContext;
  readonly #registry: Registry;
  readonly #store: ModelStore;

  constructor(
    options: ServeOptions,
    models: Models,
    observer: ModelObserver,
    context: EngineContext,
  ) {
    const { archives, limits } = options;
    const unpackDirectory = join(context.homeDirectory, "archives");
    const serving = { limits, observer };
    this.#options = options;
    this.#context = context;
    this.#registry = new Registry(models);
    this.#store = new ModelStore({ ...archives, unpackDirectory, serving }, context);
  }

  /** @param isReady whether the models of the start are loaded. */
  addInference(server: FastifyInstance, isReady: () => boolean): void {
    const { routes } = this.#options;
    const { clock, logger } = this.#context;
    const common = { registry: this.#registry, metrics: this.metrics };
    predictionRoutes(server, { ...common, routes, clock, logger, isReady });
  }

  /** @param isAlone whether no other kind of requests comes to this address. */
  addManagement(server: FastifyInstance, isAlone: boolean): void {
    const { logger } = this.#context;
    managementRoutes(server, { registry: this.#registry, store: this.#store, logger, isAlone });
  }

  /** Adds a model of the server's file, under its name and those of its variants. */
  add(served: ServedModel, given: ServedModelOptions): void {
    const { model, variants, workers = 1 } = given;
    const { limits, archives } = this.#options;
    const { maxQueueSize = limits.maxQueueSize } = given;
    const settings: WorkerSettings = {
      ...{ minWorkers: workers, maxWorkers: workers },
      ...{ batchSize: batchRowsOf(model), maxBatchDelay: 0 },
      responseTimeout: archives.responseTimeoutSeconds,
      startupTimeout: archives.startupTimeoutSeconds,
      deviceIds: [],
    };
    const {
      engine,
      name: modelName = engine,
      module: url = modelName,
    } = model as {
      engine: string;
      name?: string;
      module?: string;
    };
    const common = {
      ...{ version: firstVersion, url, runtime: engine, served, settings },
      ...{ queueSize: maxQueueSize, isLoadedAtStartup: true },
    };
    const field = `models.${served.name}`;
    asStarting(field, () => this.#registry.add({ ...common, name: served.name, fields: {} }));
    for (const [name, fields] of Object.entries(variants)) {
      asStarting(`${field}.variants`, () => this.#registry.add({ ...common, name, fields }));
    }
  }

  async load(): Promise<void> {
    const { load, loadAll } = this.#options.archives;
    const loaded = new Set(load.map(({ file }) => file));
    const others = loadAll ? await this.#store.archives() : [];
    for (const { name, file } of load) await this.#loadOne(name, file);
    for (const file of others) if (!loaded.has(file)) await this.#loadOne(undefined, file);
  }

  close(): Promise<void> {
    return this.#registry.close();
  }

  /** Refuses what waits for any version of any model. */
  refuse(reason: Parameters<ServedModel["refuse"]>[0]): void {
    for (const { served } of this.#registry.all()) served.refuse(reason);
  }

  async #loadOne(name: string | undefined, url: string): Promise<void> {
    const registering = { name, settings: {}, isLoadedAtStartup: true };
    const registration = await asStarting("archives.load", async () => {
      const opened = await this.#store.open(url, registering);
      this.#registry.add(opened);
      return opened;
    });
    const { served, settings, version } = registration;
    await served.workers.scale(settings.minWorkers);
    this.#context.logger.log("info", `${served.name} ${version} is loaded`, {
      workers: settings.minWorkers,
    });
  }
}

function batchRowsOf(model: ServedModelOptions["model"]): number {
  const { maxBatchRows } = model as { maxBatchRows?: number | "auto" };
  return typeof maxBatchRows === "number" ? maxBatchRows : 1;
}

/** What is refused while the server starts is a fault of its file or its flags. */
function asStarting<Result>(field: string, action: () => Result): Result {
  const named = (thrown: unknown): never => {
    if (!(thrown instanceof Refusal)) throw thrown;
    const hint = "see docs/torchserve.md";
    throw new SluiceError("SERVER_INVALID", thrown.message, { field, hint });
  };
  try {
    const result = action();
    return result instanceof Promise ? (result.catch(named) as Result) : result;
  } catch (thrown) {
    return named(thrown);
  }
}
