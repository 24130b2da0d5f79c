import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { endCall } from "../../src/cli/run-call.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { carriedOut, preparedRun, scratchFolder } from "../run/whole-run.ts";
import { stubIo } from "./io-stub.ts";

it("says in JSON alone that a run goes on elsewhere, with --json", async () => {
  const run = preparedRun(scratchFolder(), undefined, { maxFailedRows: 4 });
  const result = { ...(await carriedOut(run)), error: new SluiceError("RUN_DETACHED") };
  const { dependencies } = run;
  const told = async (options: { json?: boolean; quiet?: boolean }, isOutputTerminal: boolean) => {
    const stub = stubIo({ workingDirectory: run.folder, isOutputTerminal });
    const place = { dependencies, store: undefined };
    await endCall({ result, exitCode: undefined }, place, options, stub.io);
    await setImmediate();
    return stub.written;
  };
  const { run_id, output } = result.summary;
  for (const isTerminal of [true, false]) {
    const { stdout, stderr } = await told({ json: true }, isTerminal);
    expect(JSON.parse(stdout)).toEqual({ run_id, output });
    expect(stderr).toBe("");
  }
  expect((await told({ quiet: true }, false)).stderr).toBe("");
  expect((await told({}, false)).stderr).toContain("sluice attach out");
  expect((await told({}, true)).stdout).toContain("sluice attach out");
});
