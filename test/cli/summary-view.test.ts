import { expect, it } from "vitest";
import { summaryFacts, summaryLines } from "../../src/cli/summary-view.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { carriedOut, preparedRun, scratchFolder } from "../run/whole-run.ts";
import { stubIo } from "./io-stub.ts";

it("a run that stopped says how to continue, unless the hint names a command for it", async () => {
  const run = preparedRun(scratchFolder(), undefined, {
    model: { engine: "fake", failures: [{ row: 1, kind: "fatal-run" }] },
  });
  const result = await carriedOut(run);
  const { io } = stubIo({ workingDirectory: run.folder });
  const shown = async (hint: string) => {
    const error = new SluiceError("WORKERS_GONE", "", { hint });
    const facts = await summaryFacts({ ...result, error }, run.dependencies, io);
    return summaryLines(result.summary, facts, 200).join("\n");
  };
  const command = "sluice resume out";
  expect(await shown(`sluice logs ${run.location.directory} says why`)).not.toContain(command);
  expect(await shown("run sluice engine add llama")).toContain(command);
  expect(await shown(`free some space in ${run.location.directory}`)).toContain(command);
});
