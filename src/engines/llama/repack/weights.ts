import { mkdir, rename, rm, stat, statfs } from "node:fs/promises";
import { arch, cpus, freemem } from "node:os";
import { basename, join } from "node:path";
import { SluiceError } from "../../../foundation/errors.ts";
import { sortableId } from "../../../foundation/ids.ts";
import type { Json } from "../../../foundation/json.ts";
import { limits } from "../../../foundation/limits.ts";
import type { Engine, EngineContext } from "../../engine.ts";
import { cacheError } from "../../models/cache.ts";
import { withFileLock } from "../../models/file-lock.ts";
import { keptSha256 } from "../../models/kept-digest.ts";
import type { ResolvedModel } from "../../models/model-context.ts";
import {
  type MeasuredSpeed,
  partSuffix,
  type RepackPlace,
  type RepackRecord,
  readRepackRecord,
  removeLeftovers,
  repackedDirectory,
  repackedFile,
  repackPlace,
  type WeightsFile,
  writeRepackRecord,
} from "../../models/repacked.ts";
import { readGgufHeader } from "./gguf-header.ts";
import { planRepacking, type RepackPlan, writeRepacked } from "./repack-file.ts";
import { compareSpeed } from "./speed.ts";

/** The weights that are computed with. */
export interface ChosenWeights {
  /** Absolute path of their file. */
  path: string;
  /** For the log and the manifest; the digest is absent where it is not known. */
  weights: Readonly<Record<string, Json>> & { file: string };
}

/** Bytes that may be taken. */
export interface FreeBytes {
  disk: number;
  memory: number;
}

/** How the weights of a model are chosen. */
export interface ChooseOptions {
  model: Pick<ResolvedModel, "path" | "sha256">;
  /** What computes, in words that stay the same: a measurement counts for it and no other. */
  machine: string;
  /** Opens the engine on a file, to measure it. */
  open(path: string): Promise<Engine>;
  /** Default: what the folder's disk and the machine have. */
  freeBytes?(directory: string): Promise<FreeBytes>;
}

type ChooseContext = Pick<EngineContext, "clock" | "random" | "logger" | "homeDirectory">;

/**
 * A repacked file is used where it makes this many times the tokens per second: less than that is
 * within the noise, and not worth the memory.
 */
const smallestGain = 1.15;

/**
 * The file that a model is computed from: its own, or a copy in the cache whose slow weights are
 * `Q8_0`. Which formats are slow depends on the processor, so the machine is asked: the first call
 * for a file repacks it, measures both, and keeps the answer; later calls, also of other
 * processes, take that answer, so that a run that goes on has the weights it began with.
 *
 * Whatever keeps a file from being repacked is logged, and the model's own file is used: one of
 * several parts, one larger than `limits.maxRepackedModelBytes`, too little memory or disk, a GPU
 * that holds layers, a cache that cannot be written.
 */
export async function chooseWeights(
  options: ChooseOptions,
  context: ChooseContext,
): Promise<ChosenWeights> {
  const { path, sha256 } = options.model;
  const own = ownWeights(options.model);
  try {
    const plan = await planOf(path);
    if (plan === undefined) return own;
    const source = {
      file: basename(path),
      sha256: sha256 ?? (await keptSha256([path], context.homeDirectory)),
    };
    const chosen = await new Choice(options, context, source, plan).make();
    return chosen ?? { path, weights: { ...source } };
  } catch (thrown) {
    const error = cacheError(thrown, repackedDirectory(context.homeDirectory));
    if (!(error instanceof SluiceError)) throw error;
    context.logger.log("warn", `weights are used as they are: ${error.message}`, { path });
    return own;
  }
}

/** A model's own file. */
export function ownWeights({ path, sha256 }: ChooseOptions["model"]): ChosenWeights {
  return { path, weights: { file: basename(path), ...(sha256 && { sha256 }) } };
}

/** What computes, as measurements are kept by it: processor, native package, layers on the GPU. */
export function machineName(modulePath: string, gpuLayers: number | undefined): string {
  const processor = cpus()[0]?.model ?? "unknown processor";
  return `${processor}, ${arch()}, ${modulePath}, GPU layers ${gpuLayers ?? "auto"}`;
}

async function planOf(path: string): Promise<RepackPlan | undefined> {
  const { size } = await stat(path);
  if (size > limits.maxRepackedModelBytes) return undefined;
  return planRepacking(await readGgufHeader(path), size);
}

/** One choice between a source file and its repacked copy. */
class Choice {
  readonly #options: ChooseOptions;
  readonly #context: ChooseContext;
  readonly #source: WeightsFile;
  readonly #plan: RepackPlan;
  readonly #place: RepackPlace;

  constructor(
    options: ChooseOptions,
    context: ChooseContext,
    source: WeightsFile,
    plan: RepackPlan,
  ) {
    this.#options = options;
    this.#context = context;
    this.#source = source;
    this.#plan = plan;
    this.#place = repackPlace(context.homeDirectory, source);
  }

  /** The repacked file; undefined where the source is to be used. */
  async make(): Promise<ChosenWeights | undefined> {
    const known = await this.#known();
    if (known !== undefined) return known.chosen;
    const { clock, random, logger } = this.#context;
    const onWait = () => logger.log("info", "another process is repacking the weights", {});
    return withFileLock(this.#place.lock, { clock, random, onWait }, async () => {
      // Another process may have made the choice while this one waited for its turn.
      const known = await this.#known();
      return known === undefined ? this.#repackAndMeasure() : known.chosen;
    });
  }

  /** What an earlier call chose, as long as its file is whole. */
  async #known(): Promise<{ chosen: ChosenWeights | undefined } | undefined> {
    const record = await readRepackRecord(this.#place);
    const measured = record?.measured[this.#options.machine];
    if (measured === undefined) return undefined;
    if (!isGain(measured)) return { chosen: undefined };
    const path = await repackedFile(this.#place, record);
    return path === undefined ? undefined : { chosen: this.#chosen(path, record!) };
  }

  #chosen(path: string, { weights }: RepackRecord): ChosenWeights {
    const { file, sha256 } = weights!;
    return { path, weights: { file, sha256, repackedFrom: { ...this.#source } } };
  }

  async #repackAndMeasure(): Promise<ChosenWeights | undefined> {
    if (!(await this.#hasRoom())) return undefined;
    const { machine } = this.#options;
    const record = (await readRepackRecord(this.#place)) ?? {
      repackedFrom: this.#source,
      measured: {},
    };
    record.measured[machine] ??= await this.#measure(record);
    const path = isGain(record.measured[machine]) ? await this.#wholeFile(record) : undefined;
    if (record.weights && !Object.values(record.measured).some(isGain)) {
      await rm(join(this.#place.directory, record.weights.file), { force: true });
      delete record.weights;
    }
    await writeRepackRecord(this.#place, record);
    return path === undefined ? undefined : this.#chosen(path, record);
  }

  async #hasRoom(): Promise<boolean> {
    const { freeBytes = freeBytesAt, model } = this.#options;
    const directory = repackedDirectory(this.#context.homeDirectory);
    await mkdir(directory, { recursive: true });
    const free = await freeBytes(directory);
    const { size } = await stat(model.path);
    // Both files are in memory while they are measured.
    const needed = { disk: this.#plan.bytes, memory: this.#plan.bytes + size };
    if (free.disk >= needed.disk && free.memory >= needed.memory) return true;
    const facts = { free: { ...free }, needed };
    this.#context.logger.log("info", "too little room to repack the weights", facts);
    return false;
  }

  async #measure(record: RepackRecord): Promise<MeasuredSpeed> {
    const { open, model, machine } = this.#options;
    const source = await open(model.path);
    try {
      if (Number(source.choices?.gpuLayers ?? 0) > 0) return { device: "gpu" };
      const repacked = await open(await this.#wholeFile(record));
      try {
        const speeds = await compareSpeed([source, repacked], this.#context.clock);
        const [ofSource, ofRepacked] = speeds.map(Math.round) as [number, number];
        const tokensPerSecond = { source: ofSource, repacked: ofRepacked };
        const facts = { machine, tokensPerSecond };
        this.#context.logger.log("info", "speed of the repacked weights is measured", facts);
        return { device: "cpu", tokensPerSecond };
      } finally {
        await repacked.close();
      }
    } finally {
      await source.close();
    }
  }

  /** Repacks unless a whole file is there, and notes in the record what the file is. */
  async #wholeFile(record: RepackRecord): Promise<string> {
    const path = await repackedFile(this.#place, record);
    if (path !== undefined) return path;
    const { clock, random, logger } = this.#context;
    const { file, directory } = this.#place;
    const { bytes, formats } = this.#plan;
    logger.log("info", "weights are repacked once", { formats, to: file, bytes });
    await mkdir(directory, { recursive: true });
    await removeLeftovers(this.#place);
    const part = `${file}.${sortableId(clock, random)}${partSuffix}`;
    try {
      const sha256 = await writeRepacked(this.#options.model.path, part, this.#plan);
      await rename(part, file);
      record.weights = { file: basename(file), sha256, bytes };
      return file;
    } finally {
      await rm(part, { force: true });
    }
  }
}

function isGain(measured: MeasuredSpeed): boolean {
  if (measured.device === "gpu") return false;
  const { source, repacked } = measured.tokensPerSecond;
  return repacked >= smallestGain * source;
}

async function freeBytesAt(directory: string): Promise<FreeBytes> {
  const { bavail, bsize } = await statfs(directory);
  return { disk: bavail * bsize, memory: freemem() };
}
