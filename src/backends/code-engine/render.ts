import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { parseMemory } from "../../foundation/memory-size.ts";
import { gpuRequest } from "../../run/job/gpu-request.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { Rendered, ShareWork } from "../joining/scheduler.ts";
import { workerWords } from "../joining/worker-script.ts";

const defaultRetries = 3;

/** A kind of machine, by its name: family, cores, GiB, and GPUs. */
export interface Profile {
  name: string;
  cores: number;
  gigabytes: number;
  gpus: number;
  kind: string;
}

/** Machines with GPUs that Code Engine offers. */
const gpuProfiles = [
  ...["gx3-16x80x1l4", "gx3-32x160x2l4", "gx3-64x320x4l4", "gx3-24x120x1l40s", "gx3-48x240x2l40s"],
  ...["gx2-8x64x1v100", "gx2-16x128x1v100", "gx2-16x128x2v100", "gx2-32x256x2v100"],
  ...["gx3d-24x120x1a100p", "gx3d-48x240x2a100p", "gx3d-160x1792x8h100", "gx3d-160x1792x8h200"],
  "gx4d-232x3840x8b300",
].map((name) => profileOf(name)!);

/** Machines without: by gigabytes a core. */
const plainFamilies = [
  { family: "cx2", gigabytesPerCore: 2 },
  { family: "bx2", gigabytesPerCore: 4 },
  { family: "mx2", gigabytesPerCore: 8 },
] as const;
const plainCores = [2, 4, 8, 16, 32, 48, 64, 96, 128] as const;

/** The commands of a run's workers, a line each, and the fleet that carries them out. */
export function renderFleet(work: ShareWork): Rendered {
  const { job, location, shares, takers, generation } = work;
  const options = job.codeEngine!;
  const [program, ...words] = workerWords(work, options.command ?? work.program);
  const later = generation === 1 ? [] : ["--generation", `${generation}`];
  const lines = shares.map((share) =>
    JSON.stringify({
      cmds: [program],
      args: [...words, "--share", `${share}/${takers}`, "--prepare", ...later],
      idx: `${share}`,
    }),
  );
  const file = "commands.jsonl";
  const profile = options.workerProfile ?? workerProfileFor(job.workers);
  const { cpu, gigabytes, gpu } = bookingOf(job.workers, profile);
  const flags: [flag: string, value: string | number | undefined][] = [
    ["--name", fleetNameOf(location)],
    ["--image", options.image],
    ["--registry-secret", options.registrySecret],
    ["--tasks-from-local-file", file],
    ["--tasks-state-store", options.stateStore],
    ["--subnetpool-name", options.subnetPool],
    ["--worker-profile", profile],
    ["--cpu", cpu],
    ["--memory", gigabytes && `${gigabytes}G`],
    ["--gpu", gpu],
    ["--max-scale", shares.length],
    ["--retrylimit", options.retries ?? defaultRetries],
    ["--maxexecutiontime", options.maxSeconds],
    ...Object.entries(options.mounts ?? {}).map(([path, store]): [string, string] => [
      "--mount-data-store",
      `${path}=${store}`,
    ]),
    ...Object.entries(options.envs ?? {}).map(([name, value]): [string, string] => [
      "--env",
      `${name}=${value}`,
    ]),
    ...(options.envFrom ?? []).map((name): [string, string] => ["--env-from-secret", name]),
  ];
  const given = flags.filter(([, value]) => value !== undefined);
  return {
    text: `${lines.join("\n")}\n`,
    file,
    command: [
      ...["ibmcloud", "code-engine", "fleet", "create"],
      ...given.flatMap(([flag, value]) => [flag, `${value}`]),
    ],
  };
}

/**
 * What a worker books of its machine. One with GPUs gets their share of all cores and memory: its
 * neighbours have none of the other GPUs to use the rest with. A number of GPUs of any kind is one
 * of the machine's kind.
 */
function bookingOf({ gpu, cpu, memory }: JobSpec["workers"], profile: string) {
  const gigabytes = memory === undefined ? undefined : gigabytesOf(memory);
  const machine = gpu === undefined ? undefined : profileOf(profile);
  if (!machine?.gpus) return { cpu, gigabytes, gpu };
  const { kind = machine.kind, count } = gpuRequest(gpu!);
  const part = Math.min(1, (count ?? 1) / machine.gpus);
  return {
    gpu: count === undefined ? kind : `${kind}:${count}`,
    cpu: cpu ?? Math.max(1, Math.floor(machine.cores * part)),
    gigabytes: gigabytes ?? Math.max(1, Math.floor(machine.gigabytes * part)),
  };
}

const gigabytesOf = (memory: string) => Math.ceil(parseMemory(memory) / 2 ** 30);

/** By its beginning, the fleets of a run are found. */
export function fleetNameOf(location: string): string {
  return `sluice-${sha256Hex(location).slice(0, 12)}`;
}

/** The machines that a job may name, those without GPUs first; a region may lack some. */
export function workerProfiles(): Profile[] {
  const plain = plainCores.flatMap((cores) =>
    plainFamilies.map(
      ({ family, gigabytesPerCore }) =>
        profileOf(`${family}-${cores}x${cores * gigabytesPerCore}`)!,
    ),
  );
  return [...plain, ...gpuProfiles];
}

/**
 * The smallest machine that a worker fits on.
 *
 * @throws SluiceError `JOB_INVALID` if there is none.
 * @example
 * workerProfileFor({ gpu: "l40s:1", cpu: 24, memory: "120G" }); // "gx3-24x120x1l40s"
 */
export function workerProfileFor({
  gpu,
  cpu = 1,
  memory,
}: Pick<JobSpec["workers"], "gpu" | "cpu" | "memory">): string {
  const gigabytes = memory === undefined ? 1 : gigabytesOf(memory);
  const { kind, count = 1 } = gpu === undefined ? {} : gpuRequest(gpu);
  const isOfKind = (it: Profile) => kind === undefined || it.kind === kind.toLowerCase();
  const fits = (it: Profile) => it.cores >= cpu && it.gigabytes >= gigabytes;
  const offered = workerProfiles().filter((it) =>
    gpu === undefined ? it.gpus === 0 : isOfKind(it) && it.gpus >= count,
  );
  const fitting = offered
    .filter(fits)
    .sort((a, b) => a.gpus - b.gpus || a.cores - b.cores || a.gigabytes - b.gigabytes);
  if (fitting[0]) return fitting[0].name;
  const kinds = [...new Set(gpuProfiles.map((it) => it.kind))].join(", ");
  const hint = `name it by codeEngine.workerProfile; known kinds of GPU: ${kinds}`;
  const asked = [gpu && `gpu: ${gpu}`, `cpu: ${cpu}`, `memory: ${gigabytes}G`].filter(Boolean);
  const detail = `no machine of Code Engine has ${asked.join(", ")}`;
  throw new SluiceError("JOB_INVALID", detail, { hint, field: "workers" });
}

/** The parts of a name such as `gx3-24x120x1l40s`; undefined for names of another form. */
function profileOf(name: string): Profile | undefined {
  const parts = /^[a-z0-9]+-(\d+)x(\d+)(?:x(\d+)([a-z0-9]+))?$/.exec(name);
  if (!parts) return undefined;
  const [, cores, gigabytes, gpus = "0", kind = ""] = parts;
  return { name, cores: Number(cores), gigabytes: Number(gigabytes), gpus: Number(gpus), kind };
}
