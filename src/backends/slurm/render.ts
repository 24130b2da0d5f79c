import { schemeOf } from "../../data/storage/open.ts";
import { describeEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { formatIndexSet, rangesOf } from "../../foundation/index-set.ts";
import { parseMemory } from "../../foundation/memory-size.ts";
import { quotedWord } from "../../foundation/shown-path.ts";
import { gpuRequest } from "../../run/job/gpu-request.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { Rendered, ShareWork } from "../joining/scheduler.ts";
import { workerWords } from "../joining/worker-script.ts";

/**
 * Seconds before the time limit at which Slurm warns a worker. Slurm looks at its clock every 30 s,
 * and a worker needs up to 10 s to finish the requests in flight.
 */
const warningSeconds = 120;

/** The batch script of an array job, and the command that submits it. */
export function renderBatchScript(work: ShareWork): Rendered {
  const { job, shares, takers, generation, location } = work;
  const { workers, slurm = {} } = job;
  const limitSeconds = slurm.timeLimit === undefined ? undefined : secondsOf(slurm.timeLimit);
  const gpus = gresOf(job);
  const options: [name: string, value?: string | number | undefined][] = [
    ["job-name", `sluice-${nameOf(job, location)}`],
    ["comment", commentOf(location)],
    ["array", formatIndexSet(rangesOf(shares))],
    ["nodes", 1],
    ["ntasks", 1],
    ["cpus-per-task", workers.cpu === undefined ? undefined : Math.ceil(workers.cpu)],
    ["mem", workers.memory === undefined ? undefined : megabytes(workers.memory)],
    ["gres", gpus],
    ["partition", slurm.partition],
    ["account", slurm.account],
    ["qos", slurm.qos],
    ["constraint", slurm.constraint],
    ["time", slurm.timeLimit],
    ["signal", `B:USR1@${warningOf(limitSeconds)}`],
    ["requeue"],
    ["open-mode", "append"],
    ["output", slurm.output ?? logsOf(location)],
  ];
  const lines = options
    .filter((option) => option.length === 1 || option[1] !== undefined)
    .map(([name, value]) =>
      value === undefined ? `--${name}` : `--${name}=${optionText(name, value)}`,
    );
  const command = slurm.command ?? work.program;
  const later = generation === 1 ? "" : ` --generation ${generation}`;
  const words = workerWords(work, command).map(quotedWord).join(" ");
  const text = [
    "#!/bin/sh",
    ...[...lines, ...(slurm.extra ?? [])].map((line) => `#SBATCH ${line}`),
    ...(slurm.setup === undefined ? [] : [slurm.setup.trimEnd()]),
    // Signals reach the worker itself, not a shell around it.
    `exec ${words} --share "$SLURM_ARRAY_TASK_ID/${takers}"${later}`,
    "",
  ].join("\n");
  const file = `sluice-${nameOf(job, location)}.sh`;
  return { text, file, command: ["sbatch", "--parsable", file] };
}

/** By it, workers of a run are found whose submission was not recorded. */
export const commentOf = (location: string) => `sluice ${location}`;

/** Where logs go, in Slurm's notation: `%A` is the id of the array and `%a` the share. */
export function logsOf(location: string): string {
  const file = "slurm-%A-%a.log";
  // Slurm writes files only; an object store is not one.
  return schemeOf(location) === undefined
    ? `${location.replaceAll("%", "%%")}/_sluice/logs/${file}`
    : `sluice-${file}`;
}

function nameOf({ name }: JobSpec, location: string): string {
  const text = name ?? location.split("/").filter(Boolean).at(-1) ?? "run";
  return text.replace(/[^\w.-]+/g, "-").slice(0, 60);
}

/** `l40s:2` is `gpu:l40s:2`; a model that needs GPUs gets them unasked. */
function gresOf({ workers: { gpu }, model }: JobSpec): string | undefined {
  const needed = describeEngine(model).devices?.(model)?.perWorker;
  if (gpu === undefined) return needed === undefined ? undefined : `gpu:${needed}`;
  const { kind, count = needed ?? 1 } = gpuRequest(gpu);
  return kind === undefined ? `gpu:${count}` : `gpu:${kind}:${count}`;
}

const megabytes = (memory: string) => `${Math.ceil(parseMemory(memory) / 2 ** 20)}M`;

/** A quarter of a short limit: a worker that is warned at its start would do nothing. */
function warningOf(limitSeconds: number | undefined): number {
  return Math.min(warningSeconds, Math.max(1, Math.floor((limitSeconds ?? Infinity) / 4)));
}

/**
 * Seconds of a time limit in Slurm's notation: `90` minutes, `1:30:00`, `2-12` (days and hours).
 * Undefined for `UNLIMITED`.
 */
export function secondsOf(limit: string | number): number | undefined {
  const match = /^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$/.exec(String(limit));
  if (!match) return undefined;
  const [days, first = 0, second, third] = match.slice(1).map((part) => part && Number(part));
  if (days !== undefined && days !== "") {
    return (
      Number(days) * 86_400 + Number(first) * 3600 + Number(second ?? 0) * 60 + Number(third ?? 0)
    );
  }
  if (third !== undefined) return Number(first) * 3600 + Number(second) * 60 + Number(third);
  return Number(first) * 60 + Number(second ?? 0);
}

/**
 * A value in a line of `#SBATCH`, which ends at a space outside of quotes. The next line of the
 * script would be a command.
 */
function optionText(name: string, value: string | number): string {
  const text = String(value);
  if (/\p{Cc}/u.test(text)) {
    const hint = "take line ends and other signs without a form out of names, places and gpu";
    throw new SluiceError("JOB_INVALID", `--${name} of sbatch must be one line`, { hint });
  }
  return /^[\w@%+=:,./&|*()[\]-]+$/.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;
}
