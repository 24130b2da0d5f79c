import type { Command } from "commander";
import { softwareVersion } from "../../../entry.ts";
import { sleep } from "../../../foundation/clock.ts";
import { SluiceError } from "../../../foundation/errors.ts";
import { oneOf } from "../../../foundation/suggest.ts";
import { runStorage } from "../../../run/directory/run-storage.ts";
import type { FleetWorker } from "../../../run/fleet/fleet-status.ts";
import { type CliIo, write, writeJson } from "../../io.ts";
import { collect } from "../../run-call.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { softGraceMs } from "./cancel.ts";
import { type FleetTarget, openTargetFleet, type TargetFlags, withTarget } from "./target.ts";

interface DeleteFlags extends TargetFlags {
  workerName?: readonly string[];
  hard?: boolean;
  force?: boolean;
  wait?: boolean;
}

interface ProfilesFlags {
  backend: string;
  json?: boolean;
}

/** Interval between two looks whether a worker has left. */
const lookIntervalMs = 500;

/** `sluice fleet worker list|delete|profiles`: the workers of a fleet, and kinds of machines. */
export function register(fleet: Command, given: CliIo): void {
  const worker = fleet
    .command("worker")
    .description("List the workers of a fleet, or replace some.");
  const lister = worker.command("list").description("List the workers of a fleet.");
  const listIo = withStoreFlags(lister, given);
  withTarget(lister)
    .option("--json", "print a line of JSON for each")
    .action((flags: TargetFlags) => list(flags, listIo));
  const remover = worker
    .command("delete")
    .description("End workers of a fleet. Others take their places.");
  const removeIo = withStoreFlags(remover, given);
  withTarget(remover)
    .option("--worker-name <name>", "a worker, as `fleet worker list` names it; repeat it", collect)
    .option("--hard", "end its programs as well: their tasks run again")
    .option("--wait", "wait until the workers have left")
    .option("-f, --force", "without asking, as scripts of Code Engine call it")
    .action((flags: DeleteFlags) => remove(flags, removeIo));
  worker
    .command("profiles")
    .description("List the machines that --worker-profile of fleet create can name.")
    .option("--backend <name>", "whose machines", "code-engine")
    .option("--json", "print a line of JSON for each")
    .action((flags: ProfilesFlags) => profiles(flags, given));
}

async function workersOf({ fleet, dependencies }: FleetTarget): Promise<FleetWorker[]> {
  const { readFleet } = await import("../../../run/fleet/fleet-status.ts");
  return (await readFleet(fleet, dependencies)).workers;
}

async function list(flags: TargetFlags, io: CliIo): Promise<void> {
  const target = await openTargetFleet(flags, io);
  const workers = await workersOf(target);
  if (flags.json) {
    for (const worker of workers) await writeJson(io, worker);
    return;
  }
  const { cpu, memory, gpu } = target.fleet.record;
  const profile = [`${cpu}x${memory ?? "-"}`, ...(gpu === undefined ? [] : [gpu])].join("x");
  const rows = workers.map(({ name, id, state, host, scheduler }) => [
    ...[name, id, state, profile, host, scheduler ?? "local", `v${softwareVersion()}`],
  ]);
  const columns = ["Name", "ID", "Status", "Profile", "IP", "Zone", "Version"];
  await writeTable("Listing serverless fleet workers...", columns, rows, io);
}

async function remove(flags: DeleteFlags, io: CliIo): Promise<void> {
  const target = await openTargetFleet(flags, io);
  const { requestLeave } = await import("../../../run/worker/leave-request.ts");
  const named = await namedWorkers(target, flags.workerName ?? []);
  const graceMs = flags.hard ? 0 : softGraceMs;
  for (const { id, name, run } of named) {
    await requestLeave(runStorage(target.dependencies.openStorage(run)), id, { graceMs });
    await write(io, `Deleting worker '${name}'...\n`);
  }
  const ids = new Set(named.map(({ id }) => id));
  const isHere = ({ id, state }: FleetWorker) => ids.has(id) && state === "running";
  while (flags.wait && (await workersOf(target)).some(isHere)) {
    await sleep(io.clock, lookIntervalMs);
  }
  await write(io, "OK\n");
}

async function namedWorkers(target: FleetTarget, names: readonly string[]): Promise<FleetWorker[]> {
  if (names.length === 0) {
    throw new SluiceError("USAGE", "no worker is named", {
      hint: "give --worker-name, as sluice fleet worker list shows it",
    });
  }
  const workers = await workersOf(target);
  const living = workers.filter(({ state }) => state === "running");
  return names.map((name) => {
    const found = living.find((worker) => worker.name === name || worker.id === name);
    if (found) return found;
    const ended = workers.find((worker) => worker.name === name || worker.id === name);
    if (ended) {
      throw new SluiceError("USAGE", `worker ${name} has ended (${ended.state})`, {
        hint: "only running workers can be deleted",
      });
    }
    const known = oneOf(
      name,
      living.map((worker) => worker.name),
    );
    throw new SluiceError("USAGE", `--worker-name ${known}`);
  });
}

async function profiles({ backend, json }: ProfilesFlags, io: CliIo): Promise<void> {
  const { workerProfiles } = await import("../../../backends/registry.ts");
  const known = await workerProfiles(backend);
  if (json) {
    for (const profile of known) await writeJson(io, profile);
    return;
  }
  const rows = known.map(({ name, cores, gigabytes, gpus, kind }) => [
    ...[name, String(cores), `${gigabytes}G`, gpus === 0 ? "-" : `${kind}:${gpus}`],
  ]);
  const columns = ["Name", "CPU", "Memory", "GPU"];
  await writeTable("Listing serverless fleet worker profiles...", columns, rows, io);
}

async function writeTable(
  title: string,
  columns: readonly string[],
  rows: string[][],
  io: CliIo,
): Promise<void> {
  const { table } = await import("../../../terminal/table.ts");
  const lines = table(columns, rows);
  await write(io, `${[title, "OK", "", ...lines].join("\n")}\n`);
}
