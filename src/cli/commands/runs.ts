import type { Command } from "commander";
import { runDependencies } from "../../api/run-dependencies.ts";
import { type FoundRun, runsBelow } from "../../api/runs.ts";
import { absoluteLocation } from "../../data/storage/open.ts";
import { silentLogger } from "../../foundation/logger.ts";
import { duration } from "../../terminal/progress-view.ts";
import { grouped } from "../../terminal/quantities.ts";
import { right, table } from "../../terminal/table.ts";
import { type CliIo, write, writeJson } from "../io.ts";
import { argumentOf } from "../run-target.ts";
import { modelText } from "../status-view.ts";
import { withStoreFlags } from "../store-flags.ts";

/** `sluice runs [DIR]`: the runs below a folder or the prefix of a bucket. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument("[place]", "a folder, or s3://BUCKET/PREFIX", ".")
    .option("--json", "print a line of JSON for each run, like sluice status --json")
    .action((place: string, options: { json?: boolean }) => runs(place, options, io));
}

async function runs(place: string, options: { json?: boolean }, io: CliIo): Promise<void> {
  const root = absoluteLocation(io.workingDirectory, place);
  const dependencies = runDependencies(io, silentLogger);
  const rows: string[][] = [];
  for await (const run of runsBelow(root, dependencies)) {
    if (!options.json) rows.push(cells(run, io));
    else await writeJson(io, run.status ?? damaged(run));
  }
  if (options.json) return;
  if (rows.length === 0) return write(io, `no run below ${place}\n`);
  const columns = ["run", "state", ...["rows", "failed", "begun"].map(right), "model"];
  const width = io.isOutputTerminal ? io.columns() : Number.POSITIVE_INFINITY;
  await write(io, `${table(columns, rows, width).join("\n")}\n`);
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
