import { dirname } from "node:path";
import type { RunDependencies } from "../run/dependencies.ts";
import { reportPath } from "../run/directory/layout.ts";
import { fileChunks } from "../run/directory/lines.ts";
import type { RunSummary } from "../run/status/events.ts";
import { type CliIo, write } from "./io.ts";

/** Prints the report of a sealed run, which is one line, in pieces of bounded size. */
export async function printReport(
  { manifest }: RunSummary,
  dependencies: RunDependencies,
  io: CliIo,
): Promise<void> {
  const storage = dependencies.openStorage(dirname(manifest!));
  for await (const chunk of fileChunks(storage, reportPath, io.outputClosed)) {
    await write(io, chunk);
  }
}
