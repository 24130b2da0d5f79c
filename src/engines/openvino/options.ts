import { z } from "zod";
import { atLeastOne, setting } from "../../foundation/setting.ts";

/** `model` of a job with engine `openvino`. */
export const openvinoModel = z.strictObject({
  engine: z.literal("openvino").describe("The engine that answers requests"),
  name: z
    .string()
    .describe(
      "A catalog name, a path to a .gguf file, hf:owner/repo/file.gguf, or a folder in OpenVINO's form",
    ),
  device: setting(
    "operation",
    "The device, by OpenVINO's name; default CPU",
    z.enum(["CPU", "GPU", "NPU", "AUTO"]).default("CPU"),
  ),
  sequences: setting(
    "operation",
    "Requests computed at once; default 64",
    atLeastOne.max(256).optional(),
  ),
  contextTokens: atLeastOne
    .optional()
    .describe("Most tokens of prompt and answer; default: the model's"),
  threads: setting("operation", "CPU threads of the model; default: cores", atLeastOne.optional()),
  batchTokens: setting(
    "operation",
    "Tokens computed in one step; default 512",
    atLeastOne.optional(),
  ),
  precision: z
    .enum(["fast", "exact"])
    .default("fast")
    .describe(
      "fast: 8-bit activations and cache, greedy answers may depend on the batch; " +
        "exact: they almost never do, at about 60 % of the speed",
    ),
  cacheGib: setting(
    "operation",
    "Memory for keys and values, in GiB; default: a quarter of the free memory, 1 to 8",
    atLeastOne.max(1024).optional(),
  ),
});

export type OpenvinoModelOptions = z.output<typeof openvinoModel>;
