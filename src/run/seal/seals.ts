import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import type { PaidAnswers } from "../bill/costs.ts";
import type { FileRecord } from "../directory/file-record.ts";
import {
  planPath,
  type RunGeneration,
  sealPath,
  sealsPrefix,
  successPath,
} from "../directory/layout.ts";
import { createOnce, readJson, recordBytes } from "../directory/records.ts";
import { runStorage } from "../directory/run-storage.ts";
import type { Plan } from "../plan/plan.ts";
import type { Manifest, Success } from "./manifest.ts";

/**
 * How a generation of a run ended. The record is created once, so that one of all processes that
 * work on a generation decides. A retry is planned only after the generation before it has ended:
 * an older seal can never follow a newer one.
 */
export interface Seal extends RunGeneration {
  end: "sealed" | "abandoned";
  /** The sealed generation that it builds on; null for the run itself. */
  base: number | null;
  /** Id of the process that ended it. */
  by: string;
  /** The sealed files; an abandoned retry has none. */
  manifest?: FileRecord;
  /**
   * As in the manifest: the generation whose plan has all tasks in their present state; absent = 1.
   */
  standing?: number;
  spent?: PaidAnswers;
}

/** How the generations of a run have ended so far. */
export interface Seals {
  /** Their records, oldest first. */
  all: readonly Seal[];
  /** The newest sealed generation; undefined before the run's own seal. */
  sealed: Seal | undefined;
  /** Number of the last generation that has ended; 0 = none. */
  last: number;
  abandoned: readonly Seal[];
}

/**
 * Reads how the generations of a run ended. If an earlier version of Sluice sealed the run,
 * `_SUCCESS` says so.
 */
export async function readSeals(storage: Storage, of: Pick<Plan, "runId">): Promise<Seals> {
  const paths: string[] = [];
  for await (const { path } of storage.list(sealsPrefix(of))) paths.push(path);
  const seals: Seal[] = [];
  for (const path of paths) {
    const seal = await readJson<Seal>(storage, path);
    if (!seal) continue;
    const isWhole = sealPath(seal) === path && ["sealed", "abandoned"].includes(seal.end);
    if (!isWhole) throw new SluiceError("RUN_DAMAGED", "it is not a seal", { file: path });
    seals.push(seal);
  }
  const sealed =
    seals.findLast(({ end }) => end === "sealed") ?? (await sealOfSuccess(storage, of));
  return {
    all: seals,
    sealed,
    last: Math.max(sealed?.generation ?? 0, seals.at(-1)?.generation ?? 0),
    abandoned: seals.filter(({ end }) => end === "abandoned"),
  };
}

async function sealOfSuccess(
  storage: Storage,
  { runId }: Pick<Plan, "runId">,
): Promise<Seal | undefined> {
  const own = runStorage(storage);
  // If this run replaced another, a process of that other run may have written it late.
  if ((await own.number) > 1) return undefined;
  const success = await readJson<Success>(storage, successPath);
  // If another run replaced this one, it belongs to that run.
  if (!success || !(await own.stands())) return undefined;
  const { generation, manifest: path, sha256 } = success;
  const bytes = (await storage.stat(path))?.bytes ?? 0;
  const manifest = { path, sha256, bytes };
  return { runId, generation, end: "sealed", base: null, by: "", manifest };
}

/** Ends a generation, unless it has ended; returns the end that stands. */
export async function endGeneration(storage: Storage, seal: Seal): Promise<Seal> {
  return (await createOnce(storage, sealPath(seal), seal, ({ by }) => by)).record;
}

/**
 * The manifest of the newest seal, or undefined while the run is not sealed.
 *
 * @throws SluiceError `RUN_DAMAGED` if the manifest is not the sealed one.
 */
export async function readManifest(storage: Storage): Promise<Manifest | undefined> {
  const runId = (await readJson<Plan>(storage, planPath))?.runId ?? "";
  const { sealed } = await readSeals(storage, { runId });
  return sealed && (await manifestOf(storage, sealed));
}

/** @throws SluiceError `RUN_DAMAGED` if the manifest is not the sealed one. */
export async function manifestOf(storage: Storage, { manifest }: Seal): Promise<Manifest> {
  const { path, sha256 } = manifest!;
  const bytes = await storage.read(path);
  if (sha256Hex(bytes) !== sha256) {
    throw new SluiceError("RUN_DAMAGED", "it is not the one that was sealed", { file: path });
  }
  return JSON.parse(Buffer.from(bytes).toString()) as Manifest;
}

/** The view of a seal in `_SUCCESS`, for other programs. */
export function successBytes({ generation, manifest }: Seal, path: string): Buffer {
  const success: Success = { generation, manifest: path, sha256: manifest!.sha256 };
  return recordBytes(success);
}
