import type { z } from "zod";
import { looksSecret } from "../../engines/secrets.ts";
import type { codeEngineOptions, kubernetesOptions, skyOptions } from "./backend-schemas.ts";
import { gpuRequest } from "./gpu-request.ts";
import { filled, storedJob } from "./worker-variables.ts";

type Problem = [key: string, message: string];

interface PlacedJob {
  backend: string;
  workers: { min?: number | undefined; max?: number | undefined; gpu?: string | undefined };
  ray?: { runtimeEnv?: Readonly<Record<string, unknown>> | undefined } | undefined;
  slurm?: object | undefined;
  kubernetes?: z.output<typeof kubernetesOptions> | undefined;
  sky?: z.output<typeof skyOptions> | undefined;
  codeEngine?: z.output<typeof codeEngineOptions> | undefined;
  env: Readonly<Record<string, string | null>>;
}

/** Keys of backends by the names of these. */
const backendKeys = {
  ray: "ray",
  slurm: "slurm",
  kubernetes: "kubernetes",
  sky: "sky",
  "code-engine": "codeEngine",
} as const;

/** Backends whose scheduler starts as many workers as the job says. */
const joining = new Set(["slurm", "kubernetes", "sky", "code-engine"]);

/** Keys of a job that do not fit its backend, with their faults. */
export function backendProblems(job: PlacedJob): Problem[] {
  const { backend, workers } = job;
  const problems: Problem[] = [];
  const other = (name: string) => `it goes with backend: ${name}, and this is backend: ${backend}`;
  for (const [name, key] of Object.entries(backendKeys)) {
    if (job[key] !== undefined && backend !== name) problems.push([key, other(name)]);
  }
  if (workers.min !== undefined && backend !== "ray") problems.push(["workers.min", other("ray")]);
  if (workers.min !== undefined && workers.max !== undefined && workers.min > workers.max) {
    problems.push(["workers.min", `it is above workers.max, which is ${workers.max}`]);
  }
  if (joining.has(backend) && workers.max === undefined) {
    problems.push(["workers.max", `is missing: how many workers backend ${backend} starts`]);
  }
  if (backend === "kubernetes") problems.push(...kubernetesProblems(job));
  if (backend === "sky") problems.push(...skyProblems(job));
  if (backend === "code-engine" && job.codeEngine === undefined) {
    problems.push(["codeEngine", "is missing: image, stateStore and subnetPool"]);
  }
  problems.push(...variableProblems(job), ...secretProblems(job));
  return problems;
}

/** Secrets that plans, schedulers, and lists of processes would hold as they are. */
function secretProblems({ ray, kubernetes, sky, codeEngine }: PlacedJob): Problem[] {
  const places: [key: string, texts: unknown, cure: string][] = [
    ["ray.runtimeEnv.env_vars", ray?.runtimeEnv?.env_vars, "the job's env passes it to workers"],
    ["kubernetes.env", kubernetes?.env, "refer to a Secret: { secret: …, key: … }"],
    ["sky.envs", sky?.envs, "SkyPilot passes it: sky.secrets: [NAME]"],
    ["codeEngine.envs", codeEngine?.envs, "a secret of the project has it: envFrom: [SECRET]"],
  ];
  return places.flatMap(([key, texts, cure]) =>
    Object.entries(texts ?? {}).flatMap(([name, text]): Problem[] => {
      if (typeof text !== "string" || !looksSecret(name, text)) return [];
      const message = `looks like a secret, and is kept and shown; ${cure.replace("NAME", name)}`;
      return [[`${key}.${name}`, message]];
    }),
  );
}

/** Variables of the caller that workers far away would lack: no process passes them on. */
function variableProblems({ backend, env, kubernetes, sky, codeEngine }: PlacedJob): Problem[] {
  const far: Readonly<Record<string, { given: object[]; isOpen?: unknown; cure: string }>> = {
    kubernetes: {
      given: [kubernetes?.env ?? {}],
      isOpen: kubernetes?.envFrom,
      cure: "a Secret has them: kubernetes.env: { NAME: { secret: …, key: … } }",
    },
    sky: {
      given: [
        sky?.envs ?? {},
        Object.fromEntries((sky?.secrets ?? []).map((name) => [name, null])),
      ],
      cure: "SkyPilot passes them: sky.secrets: [NAME]",
    },
    "code-engine": {
      given: [codeEngine?.envs ?? {}],
      isOpen: codeEngine?.envFrom,
      cure: "a secret of the project has them: codeEngine.envFrom: [SECRET]",
    },
  };
  const place = far[backend];
  if (place === undefined || place.isOpen !== undefined) return [];
  return Object.entries(storedJob({ env }).env).flatMap(([key, value]) => {
    const needed = value === null ? [key] : filled(value, {}).missing;
    const lacked = needed.filter((name) => !place.given.some((them) => Object.hasOwn(them, name)));
    return lacked.map((name): Problem => {
      const cure = place.cure.replace("NAME", name);
      return [`env.${key}`, `workers of backend ${backend} do not get ${name} from here; ${cure}`];
    });
  });
}

const volumeKinds = ["claim", "secret", "configMap", "hostPath", "emptyDir"] as const;

function kubernetesProblems({ kubernetes }: PlacedJob): Problem[] {
  if (kubernetes === undefined) {
    return [["kubernetes.image", "is missing: a container image with Node.js and Sluice"]];
  }
  const problems: Problem[] = [];
  const paths = new Set<string>();
  for (const [at, each] of (kubernetes.volumes ?? []).entries()) {
    const given = volumeKinds.filter((kind) => each[kind] !== undefined);
    const key = `kubernetes.volumes.${at}`;
    if (given.length !== 1) problems.push([key, `give exactly one of ${volumeKinds.join(", ")}`]);
    if (paths.has(each.path)) problems.push([`${key}.path`, "another volume has this path"]);
    paths.add(each.path);
  }
  return problems;
}

function skyProblems({ sky, workers }: PlacedJob): Problem[] {
  const { accelerators, anyOf = [] } = sky?.resources ?? {};
  const isNamed = accelerators !== undefined || anyOf.some((each) => each.accelerators);
  const problems: Problem[] = [];
  if (workers.gpu !== undefined && isNamed) {
    problems.push(["workers.gpu", "sky.resources says it too: give one of them"]);
  }
  if (workers.gpu !== undefined && gpuRequest(workers.gpu).kind === undefined) {
    problems.push(["workers.gpu", "SkyPilot rents a kind of GPU: name it, as L4:1"]);
  }
  if (sky?.command !== undefined && sky.software !== "installed") {
    problems.push(["sky.command", "it goes with sky.software: installed"]);
  }
  return problems;
}
