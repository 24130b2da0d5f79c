// The program of a task: sends the recipes of one batch through a model, and writes a file with the
// answers for each. It is started as: node app.mjs /input/batches/0.txt
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

// Where the stores are: at these paths, or where this machine can put them.
const inputPlace = process.env.SLUICE_MOUNT_INPUT ?? "/input";
const outputPlace = process.env.SLUICE_MOUNT_OUTPUT ?? "/output";
const batch = process.argv[2].replace(/^\/input(?=\/)/, inputPlace);
const folder = join(dirname(batch), "..");
const listed = readFileSync(batch, "utf8").trimEnd().split("\n");
const pairs = listed.map((line) => line.split(";"));
const rows = pairs.map(([recipe]) => readFileSync(join(folder, recipe), "utf8").trimEnd());

const scratch = mkdtempSync(join(tmpdir(), "recipes-"));
try {
  const results = join(scratch, "results.jsonl");
  const { MODEL: model } = process.env;
  const words = [
    ...["run", "-c", "../recipes/job.yaml", "--input", "-", "--output", results],
    ...(model ? ["--model", model] : []),
  ];
  const { status } = spawnSync("sluice", words, {
    input: `${rows.join("\n")}\n`,
    stdio: ["pipe", "inherit", "inherit"],
  });
  if (status !== 0) process.exit(status ?? 1);
  const answers = readFileSync(results, "utf8").trimEnd().split("\n");
  for (const [at, [, name]] of pairs.entries()) {
    writeFileSync(join(outputPlace, name), `${answers[at]}\n`);
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
