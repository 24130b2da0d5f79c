import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { journaledRows } from "../chaos/run-files.ts";
import { pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { root } from "../meta/source-tree.ts";

interface Answered {
  conversation_id: string;
  conversation: { role: string; content: string }[];
  reply: { text: string; batch: { rows: number; characters: number } };
}

const example = join(root, "examples/chat-chunks");
const folder = mkdtempSync(join(tmpdir(), "sluice-chat-chunks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const linesOf = (path: string) => readFileSync(join(folder, path), "utf8").trimEnd().split("\n");

it("examples/chat-chunks answers 200 chunks, each row once, though it is killed", async () => {
  const isMade = (path: string) => /\/(chunks|answers[^/]*)$/.test(path);
  cpSync(example, folder, { recursive: true, filter: (path) => !isMade(path) });
  const cut = ["shard", "chats.parquet", "--shards", "200", "--output", "chunks"];
  const { code, stdout, stderr } = await runSluice([...cut, "--workers", "16"], folder);
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ rows: 1000, chunks: 200, smallestRows: 5 });

  const first = startSluice(["run", "-c", "job.yaml"], folder);
  const attempts = join(folder, "answers/_sluice/attempts");
  while (journaledRows(attempts).size === 0 && !first.hasEnded()) await pause(10);
  first.killGroup("SIGKILL");
  expect((await first.ended).signal).toBe("SIGKILL");
  expect(existsSync(join(folder, "answers/_SUCCESS"))).toBe(false);

  const second = await runSluice(["run", "-c", "job.yaml"], folder);
  expect(second.code, second.stderr).toBe(0);
  const summary = JSON.parse(second.stdout);
  expect(summary).toMatchObject({ status: "SUCCESS", sealed: true, rows: { answered: 1000 } });
  expect(summary.rows.resumed).toBeGreaterThan(0);
  expect((await runSluice(["verify", "answers"], folder)).code).toBe(0);

  const chunks = linesOf("chunks/metadata.txt");
  expect(chunks).toHaveLength(200);
  const rows = chunks.flatMap((chunk) => {
    const answers = linesOf(`answers/${chunk}`).map((line) => JSON.parse(line) as Answered);
    expect(answers).toHaveLength(5);
    return answers;
  });
  const ids = Array.from({ length: 1000 }, (_, at) => `chat-${String(at).padStart(4, "0")}`);
  expect(rows.map((row) => row.conversation_id)).toEqual(ids);
  for (const { conversation, reply } of rows) {
    const words = conversation[0]!.content
      .match(/\p{L}+/gu)!
      .slice(-4)
      .join(" ");
    expect(reply.text).toBe(`You asked about: ${words}`);
    const { rows: together, characters } = reply.batch;
    expect(characters <= 2000 || together === 1, `${together} rows, ${characters}`).toBe(true);
  }
  // Batches are filled, and prompts that exceed one by themselves go alone.
  expect(Math.max(...rows.map(({ reply }) => reply.batch.rows))).toBeGreaterThan(10);
  expect(rows.filter(({ reply }) => reply.batch.characters > 2000)).toHaveLength(10);
}, 120_000);

it("the example's shares are all of its chunks", async () => {
  const shares = Array.from({ length: 16 }, (_, at) => linesOf(`chunks/workers/${at}.txt`));
  expect(shares.map((share) => share.length)).toEqual([...Array(8).fill(13), ...Array(8).fill(12)]);
  const chunks = linesOf("chunks/metadata.txt");
  expect(shares.flat()).toEqual(chunks.map((chunk) => `../${chunk}`));
  const list = ["--input-list", "chunks/workers/15.txt", "--output", "answers-15"];
  const { code, stdout, stderr } = await runSluice(["run", "-c", "job.yaml", ...list], folder);
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ rows: { answered: 60 } });
  expect(existsSync(join(folder, "answers-15/part_199.jsonl"))).toBe(true);
}, 60_000);

it("the example's conversations are those that its script writes", () => {
  const made = execFileSync(process.execPath, [join(example, "make-chats.ts")]).toString();
  // From Parquet to JSON lines, fields and their order stay.
  const chunks = linesOf("chunks/metadata.txt");
  const texts = chunks.map((chunk) => readFileSync(join(folder, "chunks", chunk), "utf8"));
  expect(texts.join("")).toBe(made);
});
