import type { Command } from "commander";
import { softwareVersion } from "../../../entry.ts";
import type { Fleet } from "../../../run/fleet/fleet.ts";
import type { FleetStatus } from "../../../run/fleet/fleet-status.ts";
import { type CliIo, write, writeJson } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { driverLog } from "./start.ts";
import { openTargetFleet, placeFlags, type TargetFlags, withTarget } from "./target.ts";

/** `sluice fleet get`: the details of a fleet. */
export function register(fleet: Command, given: CliIo): void {
  const command = fleet.command("get").description("Show the details of a fleet.");
  const io = withStoreFlags(command, given);
  withTarget(command)
    .option("--json", "print JSON")
    .action((flags: TargetFlags) => get(flags, io));
}

async function get(flags: TargetFlags, io: CliIo): Promise<void> {
  const { fleet, dependencies } = await openTargetFleet(flags, io);
  const { readFleet } = await import("../../../run/fleet/fleet-status.ts");
  const { status } = await readFleet(fleet, dependencies);
  if (flags.json) return writeJson(io, { ...fleet.record, ...status });
  const lines = [`Getting fleet '${fleet.record.name}'...`, "OK", ""];
  lines.push(...detailLines(fleet, status, flags, io));
  await write(io, `${lines.join("\n")}\n`);
}

type Facts = [title: string, value: string | number][];

function detailLines(
  { record, batches }: Fleet,
  status: FleetStatus,
  flags: TargetFlags,
  io: CliIo,
): string[] {
  const named = record.name + placeFlags(flags, io);
  const { tasks, runs } = status;
  const { state, reason } = status;
  const hasEnded = state !== "running" && state !== "pending";
  const isOpen = hasEnded && runs.some(({ sealedAt }) => sealedAt === null);
  const general: Facts = [
    ["Name", record.name],
    ["ID", record.id],
    ["Status", state],
    ...(state !== "running" && reason !== null ? ([["Reason", reason]] as Facts) : []),
    ...(isOpen ? ([["Next", `sluice fleet resume --name ${named}`]] as Facts) : []),
    ["Created", age(status.ageSeconds)],
    ["Location", status.location],
    ["Log", driverLog(record.id, io)],
  ];
  const counts: Facts = [
    ["Failed", tasks.failed],
    ["Canceled", tasks.canceled],
    ["Successful", tasks.successful],
    ["Running", tasks.running],
    ["Pending", tasks.pending],
    ["Total", tasks.total],
  ];
  const code: Facts = [
    ...optional("Container image reference", record.image),
    ...optional("Registry access secret", record.registrySecret),
    ...record.command.map((word, at): Facts[number] => [`Command ${at}`, word]),
    ...record.args.map((word, at): Facts[number] => [`Argument ${at}`, word]),
  ];
  const mounts = record.mounts.map(({ path, store, location }, at): Facts[number] => [
    `Mount ${at}`,
    `${path} = ${store === undefined ? location : `${store} (${location})`}`,
  ]);
  const [first] = runs;
  const scaling: Facts = [
    ["CPU per instance", record.cpu],
    ...optional("Memory per instance", record.memory),
    ...optional("GPU per instance", record.gpu),
    ["Max number of instances", record.maxScale],
    ["Max execution time", record.timeoutMs === undefined ? "" : `${record.timeoutMs / 1000}s`],
    ["Max retries per task", record.retries],
    ...optional("Sluice version", first && softwareVersion()),
  ];
  return [
    ...section("", general),
    ...section("Tasks status", counts),
    ...(code.length === 0 ? [] : section("Code", code)),
    ...(mounts.length === 0 ? [] : section("Data stores", mounts)),
    ...section(
      "Tasks specification",
      batches.map(({ number, source }): Facts[number] => [`Batch ${number}`, source]),
    ),
    ...section("Resources and scaling", scaling),
  ];
}

const optional = (title: string, value: string | undefined): Facts =>
  value === undefined ? [] : [[title, value]];

/** Facts below a title, with aligned values and an empty line before them. */
function section(title: string, facts: Facts): string[] {
  const indent = title === "" ? "" : "  ";
  const width = Math.max(...facts.map(([name]) => name.length)) + 1;
  const lines = facts.map(([name, value]) =>
    `${indent}${`${name}:`.padEnd(width)}  ${value}`.trimEnd(),
  );
  return title === "" ? lines : ["", `${title}:`, ...lines];
}

/** An age as tables show it: `44s`, `12m`, `3h`, `2d`. */
export function age(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
