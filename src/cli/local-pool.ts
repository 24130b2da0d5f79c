import { openBackend } from "../backends/open.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Backend } from "../run/backend.ts";
import type { CliIo } from "./io.ts";

/** The pool of worker processes that `sluice run` starts. */
export function localPool({ environment, process }: CliIo, logger: Logger): Backend {
  return openBackend("local", { executable: process.executable, environment, logger });
}
