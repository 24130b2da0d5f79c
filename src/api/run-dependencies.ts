import { tmpdir } from "node:os";
import { join } from "node:path";
import { type StoreOptions, storeFromEnvironment } from "../data/s3/store-options.ts";
import { inputStores } from "../data/sources/open.ts";
import { storageOpener } from "../data/storage/open.ts";
import type { EngineContext } from "../engines/engine.ts";
import { entryCommand, softwareVersion } from "../entry.ts";
import type { Logger } from "../foundation/logger.ts";
import { traceContextOf } from "../foundation/telemetry.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { homeDirectory } from "./home.ts";
import { systemProcesses } from "./process-table.ts";
import type { Surroundings } from "./surroundings.ts";

/**
 * The outside world as the run floor sees it from a process.
 *
 * @param store what the job says of object stores; default: what the environment says.
 */
export function runDependencies(
  surroundings: Surroundings,
  logger: Logger,
  store: StoreOptions = storeFromEnvironment(surroundings.environment),
): RunDependencies {
  const { clock, random, environment, process, telemetry } = surroundings;
  const spoolDirectory = join(homeDirectory(surroundings), "spool");
  const context = { clock, random, environment, store, spoolDirectory };
  return {
    clock,
    random,
    logger,
    processes: systemProcesses(process.pid, process.platform),
    openStorage: storageOpener(context),
    inputs: inputStores({ ...context, temporaryDirectory: environment.TMPDIR || tmpdir() }),
    software: softwareVersion(),
    engineContext: () => engineContext(surroundings, logger),
    ...(telemetry && {
      telemetry,
      caller: telemetry.active() ?? traceContextOf(environment.TRACEPARENT, environment.TRACESTATE),
    }),
  };
}

/** The outside world as engines see it from a process. */
export function engineContext(
  surroundings: Surroundings,
  logger: Logger,
): EngineContext & { workingDirectory: string } {
  const { clock, random, environment, workingDirectory, process, telemetry } = surroundings;
  return {
    clock,
    random,
    logger,
    environment,
    homeDirectory: homeDirectory(surroundings),
    workingDirectory,
    hostCommand: entryCommand("engines/host/main", process.executable),
    killProcess: () => process.kill(),
    ...(telemetry && { telemetry }),
  };
}
