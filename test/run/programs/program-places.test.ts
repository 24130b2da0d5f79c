import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { localStorage } from "../../../src/data/storage/local.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { openProgramPlaces } from "../../../src/run/programs/program-places.ts";
import { localInputs } from "../../local-inputs.ts";
import { plannedRun, rowsOf } from "../run-fixture.ts";
import { scratchFolder } from "../whole-run.ts";

/** A task whose results have their names, and whose worker was killed before its commit. */
async function published() {
  const run = await plannedRun(rowsOf(1));
  const location = scratchFolder();
  const openStorage = (place: string) => localStorage(place);
  const places = openProgramPlaces({
    context: { ...run.context, clock: systemClock, openStorage },
    mounts: [{ path: "/out", location }],
    inputs: localInputs,
    processes: {
      self: () => ({ host: "h", bootId: "b", pid: 1, startTime: "1" }),
      look: () => "alive",
    },
    folder: scratchFolder(),
  });
  const begin = () => places.begin({ row: 0, task: 0 } as never, new AbortController().signal);
  const first = await begin();
  writeFileSync(join(first.mounts[0]!.place, "result.txt"), "first");
  const result = await first.succeed({ exitCode: 0 });
  await first.close();
  return { begin, result, file: join(location, "result.txt") };
}

describe("results of a task that is handed out again", () => {
  it("count, though a later task has written the same name since", async () => {
    const { begin, result, file } = await published();
    writeFileSync(file, "of another task");
    expect((await begin()).done).toEqual(result);
    expect(readFileSync(file, "utf8")).toBe("of another task");
  });

  it("are missed where they are neither staged nor published", async () => {
    const { begin, file } = await published();
    rmSync(file);
    await expect(begin()).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});
