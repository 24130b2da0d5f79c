import { z } from "zod";
import { oneLine } from "../../foundation/setting.ts";

const accelerators = z.union([oneLine, z.array(oneLine).min(1)]);

const choice = z.strictObject({
  accelerators: oneLine.optional().describe("One kind of GPU, such as `L4:1`"),
  useSpot: z.boolean().optional().describe("Machines that may be taken away, for less"),
  infra: oneLine.optional().describe("Cloud, region and zone, such as `aws/us-east-1`"),
  instanceType: oneLine.optional().describe("A kind of machine"),
});

const variable = z.string().regex(/^[A-Za-z_]\w*$/, "must be the name of a variable");

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
  command: z
    .array(z.string().min(1))
    .min(1)
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
