import type { JsonObject } from "../../foundation/json.ts";
import type { Models } from "../models.ts";
import type { ServedModel } from "../served-model.ts";
import type { ModelWorker } from "../workers.ts";
import { Refusal, refusals } from "./replies.ts";

/** How a version is served, in the words and units of the management address. */
export interface WorkerSettings {
  minWorkers: number;
  maxWorkers: number;
  batchSize: number;
  /** Milliseconds. Kept and shown: batches start as soon as a worker is free. */
  maxBatchDelay: number;
  /** Seconds. */
  responseTimeout: number;
  startupTimeout: number;
  /** GPUs by number, which workers get in turn. */
  deviceIds: readonly number[];
}

export interface Registration {
  readonly name: string;
  readonly version: string;
  /** Where it came from: the archive, or the model of the server's file. */
  readonly url: string;
  readonly runtime: string;
  readonly served: ServedModel;
  settings: WorkerSettings;
  /** Waiting requests that it takes. */
  readonly queueSize: number;
  /** Added to each row: for a name that shares a model with others. */
  readonly fields: JsonObject;
  /** The language of an archive's handler, which sees the headers and sets its reply. */
  readonly handler?: "python" | "node";
  readonly isLoadedAtStartup: boolean;
}

/** TorchServe numbers its workers from here. */
const firstWorkerId = 9000;

interface Versions {
  default: string;
  readonly byVersion: Map<string, Registration>;
}

/**
 * The models of a server by name and version. The default version of each name is what the other
 * wires serve under that name.
 */
export class Registry {
  readonly #models: Models;
  readonly #byName = new Map<string, Versions>();
  readonly #workerIds = new WeakMap<ModelWorker, string>();
  #nextWorkerId = firstWorkerId;
  readonly #unloading = new Set<Promise<void>>();

  constructor(models: Models) {
    this.#models = models;
  }

  /** Adds a version; the first one of a name is its default. */
  add(registration: Registration): void {
    const { name, version } = registration;
    this.assertNew(name, version);
    const versions = this.#byName.get(name);
    if (versions) return void versions.byVersion.set(version, registration);
    this.#byName.set(name, { default: version, byVersion: new Map([[version, registration]]) });
    this.#serveDefault(name);
  }

  /** @throws Refusal 409 if the version is there already. */
  assertNew(name: string, version: string): void {
    if (!this.#byName.get(name)?.byVersion.has(version)) return;
    const message = `Model version ${version} is already registered for model ${name}`;
    throw new Refusal(409, "ConflictStatusException", message);
  }

  /** Every default version, by name. */
  defaults(): Registration[] {
    const names = [...this.#byName.keys()].toSorted();
    return names.map((name) => this.find(name));
  }

  /** @throws Refusal 404. */
  find(name: string, version?: string): Registration {
    const versions = this.#named(name);
    const found = versions.byVersion.get(version ?? versions.default);
    if (!found) throw refusals.version(name, version ?? versions.default);
    return found;
  }

  versions(name: string): Registration[] {
    return [...this.#named(name).byVersion.values()];
  }

  all(): Registration[] {
    return [...this.#byName.values()].flatMap(({ byVersion }) => [...byVersion.values()]);
  }

  setDefault(name: string, version: string): void {
    const versions = this.#named(name);
    if (!versions.byVersion.has(version)) {
      const message = `Model version ${version} does not exist for model ${name}`;
      throw new Refusal(404, "ModelVersionNotFoundException", message);
    }
    versions.default = version;
    this.#serveDefault(name);
  }

  /**
   * Forgets a version, which its caller unloads.
   *
   * @throws Refusal 403 for the default one beside others.
   */
  remove(name: string, version?: string): Registration {
    const found = this.find(name, version);
    const versions = this.#named(name);
    if (found.version === versions.default && versions.byVersion.size > 1) {
      const message = `Cannot remove default version for model ${name}`;
      throw new Refusal(403, "InvalidModelVersionException", message);
    }
    this.drop(found);
    return found;
  }

  /**
   * Forgets a version, of whichever kind: the oldest other one is then the default.
   *
   * @returns false if it was not there. Another one of its name and version stays.
   */
  drop(registration: Registration): boolean {
    const { name, version } = registration;
    const versions = this.#byName.get(name);
    if (versions?.byVersion.get(version) !== registration) return false;
    versions.byVersion.delete(version);
    const [oldest] = versions.byVersion.keys();
    if (oldest === undefined) {
      this.#byName.delete(name);
      this.#models.remove(name);
    } else if (versions.default === version) this.setDefault(name, oldest);
    return true;
  }

  /** The number of a worker among those of all models, which it keeps. */
  workerId(worker: ModelWorker): string {
    const known = this.#workerIds.get(worker);
    if (known !== undefined) return known;
    const id = String(this.#nextWorkerId++);
    this.#workerIds.set(worker, id);
    return id;
  }

  /** The registrations of a model's workers: those of all its names. */
  sharing({ served }: Registration): Registration[] {
    return this.all().filter((each) => each.served === served);
  }

  /** Unloads a model whose registration was removed, unless other names share it. */
  async unload(registration: Registration): Promise<void> {
    if (this.sharing(registration).length > 0) return;
    const retired = registration.served.retire();
    this.#unloading.add(retired);
    await retired.finally(() => this.#unloading.delete(retired));
  }

  async close(): Promise<void> {
    const served = new Set(this.all().map((each) => each.served));
    await Promise.allSettled([...this.#unloading, ...[...served].map((each) => each.close())]);
  }

  #named(name: string): Versions {
    const versions = this.#byName.get(name);
    if (versions) return versions;
    throw this.#models.coming.has(name) ? refusals.noWorker(name) : refusals.model(name);
  }

  #serveDefault(name: string): void {
    const { served } = this.find(name);
    // A further name of a model is of this wire alone: it stands for fields of rows.
    if (served.name === name) this.#models.add(served);
  }
}
