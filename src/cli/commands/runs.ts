import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { runDependencies } from "../../api/run-dependencies.ts";
import { absoluteLocation, schemeOf } from "../../data/storage/open.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { silentLogger } from "../../foundation/logger.ts";
import type { RunDependencies } from "../../run/dependencies.ts";
import { planPath } from "../../run/directory/layout.ts";
import { runStorage } from "../../run/directory/run-storage.ts";
import { type RunStatus, StatusReader } from "../../run/status/status.ts";
import { duration } from "../../terminal/progress-view.ts";
import { grouped } from "../../terminal/quantities.ts";
import { table } from "../../terminal/table.ts";
import { type CliIo, write } from "../io.ts";
import { argumentOf } from "../run-target.ts";
import { modelText } from "../status-view.ts";
import { withStoreFlags } from "../store-flags.ts";

/** Folders below the named one that are looked into. */
const maxDepth = 6;
/** Runs that are read at once. */
const readsAtOnce = 8;

/** `sluice runs [DIR]`: the runs below a folder or the prefix of a bucket. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument("[place]", "a folder, or s3://BUCKET/PREFIX", ".")
    .option("--json", "print a line of JSON a run, as sluice status --json does")
    .action((place: string, options: { json?: boolean }) => runs(place, options, io));
}

async function runs(place: string, options: { json?: boolean }, io: CliIo): Promise<void> {
  const root = absoluteLocation(io.workingDirectory, place);
  const dependencies = runDependencies(io, silentLogger);
  const found = schemeOf(root) === undefined ? localRuns(root) : storedRuns(root, dependencies);
  const rows: string[][] = [];
  let batch: Promise<FoundRun>[] = [];
  const settle = async () => {
    for (const run of await Promise.all(batch)) {
      if (!options.json) rows.push(cells(run, io));
      else await write(io, `${JSON.stringify(run.status ?? damaged(run))}\n`);
    }
    batch = [];
  };
  for await (const location of found) {
    batch.push(readRun(location, dependencies));
    if (batch.length === readsAtOnce) await settle();
  }
  await settle();
  if (options.json) return;
  if (rows.length === 0) return write(io, `no run below ${place}\n`);
  const right = { align: "right" as const };
  const columns = [
    { title: "run" },
    { title: "state" },
    { title: "rows", ...right },
    { title: "failed", ...right },
    { title: "begun", ...right },
    { title: "model" },
  ];
  const width = io.isOutputTerminal ? io.columns() : Number.POSITIVE_INFINITY;
  await write(io, `${table(columns, rows, width).join("\n")}\n`);
}

interface FoundRun {
  location: string;
  status?: RunStatus;
  /** Why it cannot be read. */
  problem?: SluiceError;
}

async function readRun(location: string, dependencies: RunDependencies): Promise<FoundRun> {
  const { clock, processes, openStorage } = dependencies;
  try {
    const reader = new StatusReader(runStorage(openStorage(location)), { clock, processes });
    return { location, status: (await reader.read()).run };
  } catch (error) {
    return { location, problem: asSluiceError(error) };
  }
}

const damaged = ({ location, problem }: FoundRun) => ({ location, error: problem });

function cells({ location, status, problem }: FoundRun, io: CliIo): string[] {
  const place = argumentOf(location, io).replace(/\.sluice$/, "");
  if (!status) return [place, problem?.code ?? "", "", "", "", ""];
  const { answered, filtered, failed, journaled, total } = status.rows;
  const done = answered + filtered + failed + journaled;
  return [
    place,
    status.openRetry ? `${status.state}, retry begun` : status.state,
    done === total ? grouped(total) : `${grouped(done)}/${grouped(total)}`,
    grouped(failed),
    `${duration((io.clock.now() - Date.parse(status.createdAt)) / 1000)} ago`,
    modelText(status.model),
  ];
}

/** Folders of this machine that hold a run; what lies within one is not looked into. */
async function* localRuns(folder: string, depth = 0): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    if (depth > 0) return [];
    throw new SluiceError("NOT_FOUND", folder, { cause, hint: "name a folder" });
  });
  if (entries.some(({ name }) => name === "_sluice")) {
    const inside: string[] = await readdir(join(folder, "_sluice")).catch(() => []);
    if (inside.includes("plan.json")) return yield folder;
  }
  if (depth === maxDepth) return;
  const folders = entries
    .filter((entry) => entry.isDirectory() && !/^(\.|_|node_modules$)/.test(entry.name))
    .map(({ name }) => name)
    .sort();
  for (const name of folders) yield* localRuns(join(folder, name), depth + 1);
}

async function* storedRuns(
  place: string,
  { openStorage }: RunDependencies,
): AsyncGenerator<string> {
  const root = place.replace(/\/+$/, "");
  for await (const { path } of openStorage(root).list("")) {
    if (path === planPath) yield root;
    else if (path.endsWith(`/${planPath}`)) yield `${root}/${path.slice(0, -planPath.length - 1)}`;
  }
}
