import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { npmModule } from "../../src/engines/packages/lock.ts";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { sluiceProgram } from "../sluice-program.ts";

const shown = ["SLUICE_DEVICE", "CUDA_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"];

/** In place of the library: writes down what its process is shown, and fails once all have. */
const library = `
import { appendFileSync, readFileSync } from "node:fs";
const seen = Object.fromEntries(${JSON.stringify(shown)}.map((name) => [name, process.env[name]]));
appendFileSync(process.env.SEEN_FILE, JSON.stringify(seen) + "\\n");
const lines = () => readFileSync(process.env.SEEN_FILE, "utf8").split("\\n").length - 1;
export async function getLlama() {
  while (lines() < Number(process.env.HOSTS)) await new Promise((go) => setTimeout(go, 20));
  throw new Error("that is all");
}
`;

/** A folder with rows, a model file and the stand-in for `node-llama-cpp`. */
function project(): string {
  const folder = scratchFolder();
  const { module, version, entry } = npmModule("llama");
  const directory = join(folder, "node_modules", module);
  mkdirSync(join(folder, entry, ".."), { recursive: true });
  writeFileSync(join(directory, "package.json"), JSON.stringify({ version, type: "module" }));
  writeFileSync(join(folder, entry), library);
  const header = Buffer.alloc(32);
  header.write("GGUF");
  header.writeUInt32LE(3, 4);
  header.writeUInt32LE(1, 8);
  writeFileSync(join(folder, "m.gguf"), header);
  writeFileSync(join(folder, "rows.jsonl"), '{"text": "a"}\n'.repeat(6));
  writeFileSync(join(folder, "seen"), "");
  return folder;
}

const job = [
  ...["--input", "rows.jsonl", "--prompt", "{{ text }}", "--output", "out"],
  ...["--set", "model.engine=llama", "--set", "model.name=./m.gguf"],
  ...["--set", "shard.rows=1"],
];

async function sluice(folder: string, hosts: number, args: readonly string[]) {
  const PATH = `${standInDriver(threeGpus)}${delimiter}${process.env.PATH}`;
  const own = { PATH, SEEN_FILE: join(folder, "seen"), HOSTS: String(hosts) };
  const { CUDA_VISIBLE_DEVICES: _, ...environment } = process.env;
  const child = spawn(process.execPath, [sluiceProgram, ...args], {
    cwd: folder,
    env: { ...environment, ...own },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const seen = readFileSync(join(folder, "seen"), "utf8").trim().split("\n").sort();
  return { stdout, stderr, seen: seen.filter(Boolean).map((line) => JSON.parse(line)) };
}

const device = (id: number) => ({
  SLUICE_DEVICE: `cuda:${id}`,
  CUDA_VISIBLE_DEVICES: String(id),
  GGML_VK_VISIBLE_DEVICES: String(id),
});

describe("processes on a machine with three GPUs", () => {
  it("are planned one a GPU, and each engine host is shown its own", async () => {
    const folder = project();
    const plan = await sluice(folder, 0, ["plan", ...job, "--json"]);
    expect(JSON.parse(plan.stdout), plan.stderr).toMatchObject({ workers: 3 });
    expect(plan.seen).toEqual([]);
    const { seen, stderr } = await sluice(folder, 3, ["run", ...job]);
    expect(seen, stderr).toEqual([device(0), device(1), device(2)]);
  });

  it("take those that the job names", async () => {
    const folder = project();
    const named = ["--set", "model.devices=[2,1]", "--set", "workers.max=1"];
    const { seen, stderr } = await sluice(folder, 1, ["run", ...job, ...named]);
    expect(seen, stderr).toEqual([device(2)]);
  });

  it("take different ones as parts of one run that a scheduler started", async () => {
    const folder = project();
    await sluice(folder, 0, ["plan", ...job, "--write"]);
    const parts = ["0/2", "1/2"].map((part) =>
      sluice(folder, 2, ["worker", "out", "--share", part]),
    );
    const [, { seen, stderr }] = (await Promise.all(parts)) as [
      unknown,
      Awaited<(typeof parts)[0]>,
    ];
    expect(seen, stderr).toEqual([device(0), device(1)]);
  });
});
