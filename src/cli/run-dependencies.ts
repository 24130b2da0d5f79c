import { openLocalFile } from "../data/open-files.ts";
import { openStorage } from "../data/storage/open.ts";
import type { EngineContext } from "../engines/engine.ts";
import { entryCommand } from "../entry.ts";
import type { Logger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { homeDirectory } from "./home.ts";
import type { CliIo } from "./io.ts";
import { systemProcesses } from "./process-table.ts";
import { softwareVersion } from "./software-version.ts";

/** The outside world as the run floor sees it from this process. */
export function runDependencies(io: CliIo, logger: Logger): RunDependencies {
  return {
    clock: io.clock,
    random: io.random,
    logger,
    processes: systemProcesses(io.process.pid, io.process.platform),
    openStorage,
    openFile: openLocalFile,
    software: softwareVersion(),
  };
}

/** The outside world as engines see it from this process. */
export function engineContext(
  io: CliIo,
  logger: Logger,
): EngineContext & { workingDirectory: string } {
  return {
    clock: io.clock,
    random: io.random,
    logger,
    environment: io.environment,
    homeDirectory: homeDirectory(io),
    workingDirectory: io.workingDirectory,
    hostCommand: entryCommand("engines/host/main", io.process.executable),
    killProcess: () => io.process.kill(),
  };
}
