import { openLocalFile } from "../data/open-files.ts";
import { openStorage } from "../data/storage/open.ts";
import type { EngineContext } from "../engines/engine.ts";
import { entryCommand } from "../entry.ts";
import type { Logger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { homeDirectory } from "./home.ts";
import { systemProcesses } from "./process-table.ts";
import { softwareVersion } from "./software-version.ts";
import type { Surroundings } from "./surroundings.ts";

/** The outside world as the run floor sees it from a process. */
export function runDependencies(surroundings: Surroundings, logger: Logger): RunDependencies {
  const { clock, random, process } = surroundings;
  return {
    clock,
    random,
    logger,
    processes: systemProcesses(process.pid, process.platform),
    openStorage,
    openFile: openLocalFile,
    software: softwareVersion(),
  };
}

/** The outside world as engines see it from a process. */
export function engineContext(
  surroundings: Surroundings,
  logger: Logger,
): EngineContext & { workingDirectory: string } {
  const { clock, random, environment, workingDirectory, process } = surroundings;
  return {
    clock,
    random,
    logger,
    environment,
    homeDirectory: homeDirectory(surroundings),
    workingDirectory,
    hostCommand: entryCommand("engines/host/main", process.executable),
    killProcess: () => process.kill(),
  };
}
