import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { atLeastOne, setting } from "../../foundation/setting.ts";

/** Keys of `model` for engines that compute fixed batches. */
export const batchShape = {
  maxBatchRows: setting(
    "operation",
    "Most rows of a batch, default 32; auto: as many as make it faster",
    z
      .union([z.literal("auto"), atLeastOne.max(limits.maxBatchRows)])
      .default(limits.defaultMaxBatchRows),
  ),
  maxBatchChars: setting("operation", "Most characters of a batch", atLeastOne.optional()),
  maxBatchTokens: setting(
    "operation",
    "Most tokens of a batch, each row padded to the longest; rows of one length go together",
    atLeastOne.optional(),
  ),
  maxBatchDelayMs: setting(
    "operation",
    "How long an incomplete batch waits for more rows",
    z.int().min(0).max(600_000).default(0),
  ),
};

/** Keys of `model` for engines with replicas, each a separate process. */
export const replicaShape = {
  replicas: setting(
    "operation",
    "Instances of the model for each worker, each in its own process; default 1",
    atLeastOne.max(256).optional(),
  ),
  threads: setting(
    "operation",
    "CPU threads of each replica; default: the cores, divided among them",
    atLeastOne.optional(),
  ),
  devices: setting(
    "operation",
    "GPUs to use, by number or UUID, or all; each replica gets its own. Default: none",
    z
      .union([z.literal("all"), z.array(z.union([z.int().min(0), z.string().min(1)])).min(1)])
      .optional(),
  ),
  loadTimeoutMs: setting(
    "operation",
    "Longest time to load a replica; then its process is ended, and the run stops",
    atLeastOne.max(limits.maxServerLoadTimeoutMs).default(limits.workerReadyTimeoutMs),
  ),
  timeoutMs: setting(
    "operation",
    "Longest time of a batch; then its process, if it has one, is ended, and its rows are sent again in smaller groups",
    atLeastOne.default(limits.requestTimeoutMs),
  ),
};
