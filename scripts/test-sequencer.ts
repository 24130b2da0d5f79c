import { basename } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that take longest by far, those first that wait most of the time: all would wait for the
 * last one. Those that compute come next, beside them, so that no core is idle.
 */
const longest = [
  ...["ray", "fleet-ray", "clouds"],
  ...["simulation", "llama-equality", "llama", "fleet-clouds", "openvino", "slurm"],
  ...[
    "far-simulation",
    "llama-tools",
    "openvino-tools",
    "llama-answers",
    "planted-bugs",
    "hugging-face",
  ],
  ...["s3-credentials", "examples", "pack", "fleet-mounts", "fleet", "openai-faults"],
  ...["serve-batches", "advice", "serve-replicas", "llama-tools-served", "llama-lora"],
];

/** Files that wait for what is installed beside the others. */
const last = ["s3-storage", "s3", "openapi"];

/** Puts the longest files first, and leaves the others in vitest's order. */
export default class TestSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => placeOf(a) - placeOf(b));
  }
}

function placeOf({ moduleId }: TestSpecification): number {
  const name = basename(moduleId, ".test.ts");
  if (last.includes(name)) return longest.length + 1;
  const place = longest.indexOf(name);
  return place < 0 ? longest.length : place;
}
