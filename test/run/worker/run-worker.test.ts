import { expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { workerInside } from "../../../src/run/worker/run-worker.ts";
import { carriedOut, dependenciesOf, preparedRun, scratchFolder } from "../whole-run.ts";

it("leaves a worker inside to itself whose engine never opens", async () => {
  const run = preparedRun(scratchFolder());
  await carriedOut(run, AbortSignal.abort(new SluiceError("RUN_CANCELED")));
  const opening = Promise.withResolvers<void>();
  const dependencies = dependenciesOf();
  const { clock, random, logger } = dependencies;
  const worker = workerInside({
    location: run.location,
    generation: 1,
    dependencies,
    engineContext: {
      ...{ clock, random, logger, environment: {}, homeDirectory: "/nowhere", hostCommand: [] },
      killProcess() {},
    },
    openEngine() {
      opening.resolve();
      return new Promise(() => {});
    },
  });
  await opening.promise;
  worker.kill();
  expect(await worker.ended).toBe("it was left to itself");
});
