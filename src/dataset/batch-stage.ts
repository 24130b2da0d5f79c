import { isDeepStrictEqual } from "node:util";
import { SluiceError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";
import { parseMemory } from "../foundation/memory-size.ts";
import { nearest } from "../foundation/suggest.ts";
import type { BatchOptions } from "./types.ts";

const optionNames = [
  "batchSize",
  "rows",
  "batchFormat",
  "concurrency",
  "numCpus",
  "numGpus",
  "memory",
  "constructorArgs",
  "timeoutMs",
  "name",
  "closure",
] as const satisfies readonly (keyof BatchOptions)[];

/**
 * The stage of a `mapBatches` call, as a job has it.
 *
 * @throws SluiceError `OPTION_UNKNOWN`, which names the nearest option.
 */
export function batchStage(options: BatchOptions): JsonObject {
  for (const name of Object.keys(options)) {
    if ((optionNames as readonly string[]).includes(name)) continue;
    const meant = nearest(name, optionNames);
    const instead = meant ? `did you mean ${meant}?` : `it has ${optionNames.join(", ")}`;
    throw new SluiceError("OPTION_UNKNOWN", `mapBatches: ${name}; ${instead}`, {
      hint: "see docs/dataset.md",
    });
  }
  const { memory, closure: _, ...others } = options;
  const memoryBytes = typeof memory === "string" ? parseMemory(memory) : memory;
  const stage = {
    kind: "mapBatches",
    ...others,
    ...(memoryBytes !== undefined && { memoryBytes }),
  };
  const written = JSON.parse(JSON.stringify(stage)) as JsonObject;
  if (!isDeepStrictEqual(written.constructorArgs, others.constructorArgs)) {
    throw new SluiceError("USAGE", "constructorArgs hold what JSON does not have", {
      hint: "give texts, numbers, lists and objects: they are written into the plan",
    });
  }
  return written;
}
