import { basename } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take longest by far, and wait most of the time: all would wait for the last one. */
const longest = ["fleet-ray", "ray-outside", "fleet-clouds", "clouds", "fleet", "ray", "slurm"];

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
