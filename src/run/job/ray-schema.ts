import { z } from "zod";
import { atLeastOne, oneLine } from "../../foundation/setting.ts";

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
