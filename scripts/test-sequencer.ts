import { basename } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that take longest by far, those first that wait most of the time: all would wait for the
 * last one. Those that compute come next, beside them, so that no core is idle.
 */
const longest = [
  ...["ray-outside", "fleet-ray", "clouds"],
  ...["simulation", "llama-equality", "ray", "llama", "fleet-clouds", "openvino", "slurm"],
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

/** Puts the longest files first, and leaves the others in vitest's order. */
export default class TestSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => placeOf(a) - placeOf(b));
  }
}

function placeOf({ moduleId }: TestSpecification): number {
  const place = longest.indexOf(basename(moduleId, ".test.ts"));
  return place < 0 ? longest.length : place;
}
