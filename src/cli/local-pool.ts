import { type OpenBackend, openBackend } from "../backends/open.ts";
import type { Logger } from "../foundation/logger.ts";
import type { CliIo } from "./io.ts";

/** The pool of worker processes that `sluice run` starts. */
export function localPool({ environment, process }: CliIo, logger: Logger): OpenBackend {
  return openBackend("local", { executable: process.executable, environment, logger });
}
