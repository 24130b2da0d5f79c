import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sluiceModule } from "../sluice-program.ts";
import { strangeJob } from "./strange-jobs.ts";

// Plans the jobs of the seeds from the first on, in the folder that is given, and says of each what
// became of it, one line of JSON each. Whoever started it ends it where no line comes.

const [folder = "", first = "0", count = "0"] = process.argv.slice(2);
const { plan } = (await import(sluiceModule)) as typeof import("../../src/index.ts");
const text = `${"word (a) ".repeat(300)}`;
const rows = [
  { text, many: Array.from({ length: 2000 }, (_, at) => at) },
  { text: "b", many: [] },
];
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "rows.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));

for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
  // What earlier jobs left is no memory of this one.
  globalThis.gc?.();
  const job = strangeJob(seed);
  if (job.kind === "file") writeFileSync(join(folder, "job.yaml"), job.bytes);
  const given = job.kind === "file" ? join(folder, "job.yaml") : job.value;
  let end = "planned";
  try {
    await plan(given as string, { workingDirectory: folder });
  } catch (thrown) {
    const { name, code, stack } = thrown as Error & { code?: string };
    const isNamed = name === "SluiceError" && code !== "INTERNAL";
    end = isNamed ? String(code) : `unnamed: ${stack ?? String(thrown)}`;
  }
  const { maxRSS } = process.resourceUsage();
  process.stdout.write(
    `${JSON.stringify({ seed, end, peakMegabytes: Math.round(maxRSS / 1024) })}\n`,
  );
}
