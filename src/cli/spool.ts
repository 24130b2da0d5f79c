import { createWriteStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { sha256Stream } from "../foundation/hashing.ts";
import { sortableId } from "../foundation/ids.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { planPath } from "../run/layout.ts";
import { locateRun } from "../run/locate.ts";
import { assertFree } from "../run/open-run.ts";
import { stdinPrefix } from "../run/remove-run.ts";
import type { CliIo } from "./io.ts";

/**
 * Puts standard input into a file of the run directory, so that it can be read more than once: the
 * job with `-` replaced by that file. The name follows from the content, so that the same input
 * goes on with the same run.
 *
 * @throws SluiceError `OUTPUT_OCCUPIED`, before anything is written.
 */
export async function spoolStdin(
  job: JobSpec,
  { clock, random, openStorage }: Pick<RunDependencies, "clock" | "random" | "openStorage">,
  io: CliIo,
): Promise<JobSpec> {
  if (!job.input.some(({ path }) => path === "-")) return job;
  const location = locateRun(job.output.path);
  const { directory } = location;
  const storage = openStorage(directory);
  if (!(await storage.stat(planPath))) {
    await assertFree(storage, openStorage(location.outside), location);
  }
  const draft = join(directory, `${stdinPrefix}${sortableId(clock, random)}.pending`);
  await mkdir(join(directory, "_sluice"), { recursive: true });
  const digest = sha256Stream();
  try {
    await pipeline(
      io.stdin,
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          digest.update(chunk);
          yield chunk;
        }
      },
      createWriteStream(draft),
    );
    const input = job.input.map((source) => {
      if (source.path !== "-") return source;
      const format = source.format ?? "jsonl";
      return {
        ...source,
        format,
        path: `${stdinPrefix}${digest.copy().digest("hex").slice(0, 16)}.${format}`,
      };
    });
    const spooled = input.find((source) => source.path.startsWith(stdinPrefix))!;
    await rename(draft, join(directory, spooled.path));
    return {
      ...job,
      input: input.map((source) => ({
        ...source,
        path: source === spooled ? join(directory, source.path) : source.path,
      })),
    };
  } finally {
    await rm(draft, { force: true });
  }
}
