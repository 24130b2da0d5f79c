import { access, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { withStoreErrors } from "../../data/storage/local-errors.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { quotedWord } from "../../foundation/shown-path.ts";
import { sampleJob, sampleRows } from "../first-job.ts";
import { type CliIo, write } from "../io.ts";

/** `sluice init [directory]`: a first job with sample data, ready to run. */
export function register(command: Command, io: CliIo): void {
  command
    .argument("[directory]", "where to write; created if missing", ".")
    .action(async (directory: string) => {
      const target = resolve(io.workingDirectory, directory);
      const files = { "job.yaml": sampleJob, "reviews.jsonl": sampleRows };
      await refuseToOverwrite(target, Object.keys(files));
      await withStoreErrors(target, async () => {
        await mkdir(target, { recursive: true });
        for (const [name, text] of Object.entries(files)) {
          // `wx` also refuses a file that appeared since the check.
          await writeFile(join(target, name), text, { flag: "wx" });
        }
      });
      await write(io, nextSteps(relative(io.workingDirectory, join(target, "job.yaml"))));
    });
}

async function refuseToOverwrite(directory: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const file = join(directory, name);
    const isThere = await access(file).then(
      () => true,
      () => false,
    );
    if (!isThere) continue;
    throw new SluiceError("OUTPUT_OCCUPIED", `${file} is there already`, {
      hint: "name another directory, as sluice init first-job",
    });
  }
}

function nextSteps(file: string): string {
  const job = quotedWord(file);
  // In the output of the job, the answers of a stand-in would be another run.
  const trial = quotedWord(join(dirname(file), "trial"));
  const steps = [
    [`sluice run ${job}`, "fetches the model once"],
    [`sluice run ${job} --model fake --output ${trial}`, "without any model"],
    [`sluice plan ${job}`, "what would be done"],
  ] as const;
  const width = Math.max(...steps.map(([command]) => command.length));
  const lines = steps.map(([command, what]) => `  ${command.padEnd(width)}  # ${what}`);
  return [`wrote ${file} and its sample data`, "", ...lines, ""].join("\n");
}
