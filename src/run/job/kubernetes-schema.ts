import { z } from "zod";
import { oneLine } from "../../foundation/setting.ts";

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
  command: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("How the image starts Sluice, as words; default: sluice"),
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
      z.string().regex(/^[A-Za-z_]\w*$/, "must be the name of a variable"),
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
