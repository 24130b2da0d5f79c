import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { cleanRun } from "../../../src/run/clean.ts";
import { memoryRuns } from "../memory-runs.ts";
import { errorOf, rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

type Ends = Readonly<Record<number, "cut" | "refused">>;

/** Answers each row, save for those that are cut or refused. */
const answering = (ends: Ends) =>
  scriptedEngine(2, ({ index }) =>
    ends[index] === "refused"
      ? new SluiceError("REQUEST_REFUSED")
      : responseOf("text", ends[index] === "cut" ? "length" : "stop"),
  );

/** Asks the cut rows again, and says which they were. */
async function askedAgain(runs: ReturnType<typeof memoryRuns>, ends: Ends): Promise<number[]> {
  const engine = answering(ends);
  await runs.retry(engine, "finish_reason=length");
  return engine.asked.toSorted((a, b) => a - b);
}

describe("cut answers", () => {
  it("are those that stand now, whichever retry gave them", async () => {
    const runs = memoryRuns(rowsOf(8), { shard: { rows: 4 } });
    await runs.run(answering({ 1: "cut", 2: "cut", 3: "cut", 5: "refused", 6: "refused" }));
    await runs.retry(answering({ 5: "cut" }));
    expect(await askedAgain(runs, { 2: "cut", 3: "refused" })).toEqual([1, 2, 3, 5]);
    await cleanRun(runs.dependenciesOf(), runs.location(), false);
    expect(await askedAgain(runs, {})).toEqual([2, 3]);
    expect(await askedAgain(runs, {})).toEqual([]);
    expect(await runs.damages()).toEqual([]);
  });

  it("cannot be told where the notes of them are gone", async () => {
    const runs = memoryRuns(rowsOf(2));
    await runs.run(answering({ 1: "cut" }));
    const store = runs.store("/runs/out");
    for await (const { path } of store.list("_sluice/attempts/")) {
      if (path.endsWith("cut-rows.txt")) await store.remove(path);
    }
    const error = await errorOf(runs.retry(answering({}), "finish_reason=length"));
    expect(error.code).toBe("UNSUPPORTED");
  });
});
