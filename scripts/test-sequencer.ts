import { basename } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that take longest by far, those first that wait most of the time: all would wait for the
 * last one. Those that compute come next, beside them, so that no core is idle. Short ones that
 * wait come among those that compute: at the end they would be alone.
 */
const longest = [
  ...["ray", "clouds"],
  ...["openvino", "fleet-clouds", "serve-batches", "openvino-tools", "llama-equality", "llama"],
  ...["simulation", "planted-bugs", "far-simulation", "hugging-face", "examples", "recipes"],
  ...[
    "slurm",
    "llama-tools",
    "fleet",
    "s3-run",
    "provider-batches",
    "orphans",
    "advice",
    "joining",
  ],
  ...["serve-replicas", "openai-faults", "fleet-losses", "pack", "hostile-texts", "pause"],
  ...["fleet-mounts", "random-jobs", "telemetry", "kill", "s3-kill", "attach"],
  ...["llama-tools-served", "llama-lora", "llama-answers", "predictor", "strange-jobs"],
  ...["transformers", "transformers-tasks", "s3-credentials", "everyday-inputs", "processes"],
  ...["fleet-states", "command", "fleet-recipes", "fleet-bookings", "managed-servers"],
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
