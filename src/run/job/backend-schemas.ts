import { z } from "zod";
import { atLeastOne, oneLine } from "../../foundation/setting.ts";
import { gpuRequestPattern } from "./gpu-request.ts";

const words = z.array(z.string().min(1)).min(1);
const variable = z.string().regex(/^[A-Za-z_]\w*$/, "must be the name of a variable");

/** Keys of `workers` in a job. */
export const workersOptions = z.strictObject({
  max: atLeastOne
    .optional()
    .describe("Number of worker processes; default: from cores, GPUs and engine"),
  min: atLeastOne
    .optional()
    .describe("For `backend: ray`: workers that must find room on the cluster; default 1"),
  cpu: z.number().gt(0).optional().describe("Cores that a worker needs"),
  memory: z
    .string()
    .regex(/^\d+(\.\d+)?\s*[KMGT]i?B?$/i, "must be a number with K, M, G or T, as 120G")
    .optional()
    .describe("Memory that a worker needs, such as 120G"),
  maxSilenceMs: atLeastOne
    .min(1000)
    .max(86_400_000)
    .optional()
    .describe("A worker that is silent for this long is ended; default 60000"),
  gpu: z
    .string()
    .regex(gpuRequestPattern, "must be a number, a kind of GPU, or a kind and a number, as l40s:2")
    .optional()
    .describe("GPUs for each worker, such as l40s:2; default: one of any kind"),
});

/** Options of `sbatch` that other keys of a job say. */
const ownSbatchOptions = new RegExp(
  `^--(${[
    ...["array", "wrap", "parsable", "comment", "job-name", "nodes", "ntasks", "cpus-per-task"],
    ...["mem", "gres", "partition", "account", "qos", "constraint", "time", "signal", "requeue"],
    ...["no-requeue", "open-mode", "output", "error", "test-only"],
  ].join("|")})(=|$)`,
);

/** Keys of `slurm` in a job. */
export const slurmOptions = z.strictObject({
  partition: oneLine.optional().describe("Partition of the workers; default: that of the cluster"),
  account: oneLine.optional().describe("Account that pays"),
  qos: oneLine.optional().describe("Quality of service"),
  constraint: oneLine.optional().describe("Features that nodes must have, such as `a100&nvlink`"),
  timeLimit: z
    .union([
      atLeastOne,
      z.string().regex(/^(\d+-)?\d+(:\d+){0,2}$|^UNLIMITED$/i, "must be minutes, 1:30:00 or 2-12"),
    ])
    .optional()
    .describe("Longest time of a worker: minutes, `1:30:00`, or `2-12` for days and hours"),
  output: oneLine
    .optional()
    .describe("Files of logs, in the notation of sbatch; default: in the run directory"),
  setup: z
    .string()
    .min(1)
    .optional()
    .describe("Shell lines before a worker, as `module load cuda`"),
  command: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe(
      "How nodes start Sluice, as words; default: this Node and this package, by their paths",
    ),
  extra: z
    .array(
      oneLine
        .regex(/^--[a-z]/, "must be a long option of sbatch, as --exclusive")
        .refine((option) => !ownSbatchOptions.test(option), "is set by Sluice or by its own key"),
    )
    .optional()
    .describe("More options of sbatch, such as `--reservation=team`"),
  shared: z
    .boolean()
    .optional()
    .describe("All nodes see the folders of input and output, even if they look like local disks"),
});

/** A name of Kubernetes: a label of DNS, or several with dots. */
const name = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, "must be a name of Kubernetes, as my-claim");
const key = z.string().min(1);
const texts = z.record(z.string().min(1), z.string());

const volume = z.strictObject({
  path: z
    .string()
    .regex(/^\/[^:\r\n]*$/, "must be an absolute path")
    .describe("Where workers see it"),
  claim: name.optional().describe("A PersistentVolumeClaim"),
  secret: name.optional().describe("A Secret, as files"),
  configMap: name.optional().describe("A ConfigMap, as files"),
  hostPath: z.string().startsWith("/").optional().describe("A folder of the node"),
  emptyDir: z.string().min(1).optional().describe("A folder of the pod, of this size, as 20Gi"),
  subPath: z.string().min(1).optional().describe("Only this folder of the volume"),
  readOnly: z.boolean().optional().describe("Workers do not write there"),
});

/** Keys of `kubernetes` in a job. */
export const kubernetesOptions = z.strictObject({
  image: oneLine.describe("Container image with Node.js and Sluice"),
  command: words.optional().describe("How the image starts Sluice, as words; default: sluice"),
  setup: z.string().min(1).optional().describe("Shell lines before a worker"),
  namespace: name.optional().describe("Default: that of kubectl"),
  queue: name.optional().describe("Kueue's queue that admits the workers"),
  priorityClass: name.optional().describe("Name of the pods' PriorityClass"),
  serviceAccount: name.optional().describe("Name of the pods' ServiceAccount"),
  user: z
    .int()
    .min(1)
    .max(2 ** 31 - 1)
    .optional()
    .describe("Number of the user of workers, without privileges; default: that of the image"),
  imagePullSecrets: z.array(name).optional().describe("Secrets that open the image's registry"),
  nodeSelector: texts.optional().describe("Labels that a node must have"),
  tolerations: z
    .array(
      z.strictObject({
        key: z.string().min(1).optional().describe("Key of the taint; default: any"),
        operator: z.enum(["Equal", "Exists"]).optional().describe("Default: Equal"),
        value: z.string().optional().describe("Value of the taint"),
        effect: z
          .enum(["NoSchedule", "PreferNoSchedule", "NoExecute"])
          .optional()
          .describe("Default: any"),
      }),
    )
    .optional()
    .describe("Taints of nodes that workers bear"),
  gpuResource: oneLine.optional().describe("Name of GPUs on nodes; default: nvidia.com/gpu"),
  volumes: z.array(volume).max(64).optional().describe("What workers mount"),
  env: z
    .record(
      variable,
      z.union([
        z.string(),
        z.strictObject({ secret: name.describe("A Secret"), key: key.describe("Its key") }),
        z.strictObject({
          configMap: name.describe("A ConfigMap"),
          key: key.describe("Its key"),
        }),
      ]),
    )
    .optional()
    .describe("Variables of workers: texts, or `{secret: NAME, key: KEY}`"),
  envFrom: z
    .array(
      z.union([
        z.strictObject({ secret: name.describe("A Secret") }),
        z.strictObject({ configMap: name.describe("A ConfigMap") }),
      ]),
    )
    .optional()
    .describe("Secrets and ConfigMaps whose keys become variables of workers"),
  retries: z
    .int()
    .min(0)
    .max(1000)
    .optional()
    .describe("Starts of a worker after its own failures; default 6. Lost nodes do not count"),
  gracePeriodSeconds: z
    .int()
    .min(15)
    .max(86_400)
    .optional()
    .describe("Time of a worker that must leave; default 60"),
  keepSeconds: z
    .int()
    .min(0)
    .optional()
    .describe("How long Kubernetes keeps ended workers and their logs; default 86400"),
});

const store = z
  .string()
  .regex(/^[\w.-]+(:[^\r\n]*)?$/, "must be a data store, as my-store or my-store:/prefix");

/** Keys of `codeEngine` in a job. */
export const codeEngineOptions = z.strictObject({
  image: oneLine.describe("Container image with Node.js and Sluice"),
  registrySecret: oneLine.optional().describe("Secret that opens the image's registry"),
  command: words.optional().describe("How the image starts Sluice, as words; default: sluice"),
  stateStore: oneLine.describe("Data store in which the fleet keeps the state of its tasks"),
  subnetPool: oneLine.describe("Subnet pool of the workers"),
  workerProfile: oneLine
    .optional()
    .describe("Machine, such as gx3-24x120x1l40s; default: from workers.gpu, cpu and memory"),
  mounts: z
    .record(z.string().regex(/^\//, "must be an absolute path"), store)
    .optional()
    .describe("Places of workers, and the data stores that they show, such as my-store:/prefix"),
  envs: z.record(variable, z.string()).optional().describe("Variables of workers"),
  envFrom: z.array(oneLine).optional().describe("Secrets whose keys become variables of workers"),
  retries: z
    .int()
    .min(0)
    .max(100)
    .optional()
    .describe("Starts of a worker after a failure; default 3"),
  maxSeconds: z.int().min(1).optional().describe("Longest time of a worker"),
});

/** Keys of `ray` in a job. */
export const rayOptions = z.strictObject({
  address: oneLine
    .refine(
      (address) => /^(?![a-z]+:\/\/)|^https?:\/\/[^/@?#]+(\/[^@?#]*)?$/i.test(address),
      "must be HOST:PORT of the head, or http://HOST:8265 of its dashboard; no other will do",
    )
    .optional()
    .describe(
      "Head, such as head:6379, or its dashboard: http://head:8265; default: RAY_ADDRESS, else here",
    ),
  python: oneLine.optional().describe("A Python with the package `ray`; default: python3"),
  strategy: z
    .enum(["SPREAD", "PACK"])
    .optional()
    .describe("Whether workers spread over nodes or fill one after another; default: SPREAD"),
  acceleratorType: oneLine.optional().describe("Ray's name of a kind of GPU, such as A100"),
  resources: z
    .record(z.string().min(1), z.number().gt(0))
    .optional()
    .describe("More resources that a worker books, by the cluster's own names"),
  labels: z
    .record(z.string().min(1), z.string())
    .optional()
    .describe("Labels that a node must have, such as market-type: spot"),
  runtimeEnv: z
    .record(z.string(), z.json())
    .optional()
    .describe("Ray's runtime environment of workers, such as pip packages"),
  software: z
    .enum(["auto", "send", "installed"])
    .optional()
    .describe(
      "How nodes get Sluice: `installed` as sluice-ray, or sent; default: sent where it is missing",
    ),
  shared: z
    .boolean()
    .optional()
    .describe("All nodes mount the local folders of input and output, at the same paths"),
  maxSilenceMs: atLeastOne
    .min(1000)
    .max(600_000)
    .optional()
    .describe("A node that does not answer for this long is given up; default 3000"),
  maxRoomWaitMs: atLeastOne
    .optional()
    .describe("How long fewer than workers.min may have room on the cluster; default 900000"),
});

const accelerators = z.union([oneLine, z.array(oneLine).min(1)]);

const choice = z.strictObject({
  accelerators: oneLine.optional().describe("One kind of GPU, such as `L4:1`"),
  useSpot: z.boolean().optional().describe("Machines that may be taken away, for less"),
  infra: oneLine.optional().describe("Cloud, region and zone, such as `aws/us-east-1`"),
  instanceType: oneLine.optional().describe("A kind of machine"),
});

/** Keys of `sky` in a job. */
export const skyOptions = z.strictObject({
  resources: z
    .strictObject({
      accelerators: accelerators
        .optional()
        .describe("GPUs of a worker: `L4:1`, or several kinds of which any will do"),
      anyOf: z
        .array(choice)
        .min(1)
        .optional()
        .describe("Alternatives, of which the cheapest is taken"),
      useSpot: z.boolean().optional().describe("Machines that may be taken away, for less"),
      infra: oneLine.optional().describe("Cloud, region and zone, such as `aws/us-east-1`"),
      instanceType: oneLine.optional().describe("A kind of machine"),
      imageId: oneLine
        .optional()
        .describe("Image of the machine, such as `docker:registry/image:1`"),
      diskSizeGb: z.int().min(1).optional().describe("Size of its disk"),
    })
    .optional()
    .describe("Machines of workers; cores and memory are workers.cpu and workers.memory"),
  tokensPerSecond: z
    .record(z.string().min(1), z.number().gt(0))
    .optional()
    .describe(
      "Measured tokens a second of a worker by its kind of GPU: offers are tried by their price a token",
    ),
  software: z
    .enum(["send", "installed"])
    .optional()
    .describe("Whether Sluice is sent to machines or is in their image; default: send"),
  command: words
    .optional()
    .describe("How machines start an installed Sluice, as words; default: sluice"),
  setup: z.string().min(1).optional().describe("Shell lines that prepare a machine once"),
  fileMounts: z
    .record(z.string().min(1), oneLine)
    .optional()
    .describe(
      "Places of a machine, and what is copied or mounted there, such as s3://bucket/models",
    ),
  envs: z.record(variable, z.string()).optional().describe("Variables of workers"),
  secrets: z
    .array(variable)
    .optional()
    .describe("Variables of the caller that workers get; their values are in no file"),
  recovery: oneLine.optional().describe("SkyPilot's strategy after a lost machine"),
  retries: z
    .int()
    .min(0)
    .max(1000)
    .optional()
    .describe("Starts of a worker after its own failures; default 3. Lost machines do not count"),
});
