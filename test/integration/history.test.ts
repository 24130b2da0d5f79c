import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { jsonLinesIn } from "./json-lines.ts";

it("a column of earlier turns stands before the question, row by row", async () => {
  const folder = scratchFolder();
  const turns = { history: [{ user: "Hi", bot: "Hello!" }], question: "How are you?" };
  const messages = { history: [{ role: "user", content: "Hi" }], question: "Again?" };
  const wrong = { history: [{ text: "?" }], question: "What?" };
  const rows = [turns, { history: null, question: "New?" }, messages, wrong];
  writeFileSync(join(folder, "rows.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  writeFileSync(
    join(folder, "job.yaml"),
    `input: rows.jsonl
model: { engine: fake }
prompt: { system: Be kind., history: history, prompt: "{{ question }}" }
output: out
`,
  );
  const planned = await runSluice(["plan", "-c", "job.yaml", "--show", "4", "--json"], folder);
  const shown = JSON.parse(planned.stdout).shown as { requests: { messages: object[] }[] }[];
  const system = { role: "system", content: "Be kind." };
  const asked = (content: string) => ({ role: "user", content });
  expect(shown.slice(0, 3).map(({ requests }) => requests[0]!.messages)).toEqual([
    [system, asked("Hi"), { role: "assistant", content: "Hello!" }, asked("How are you?")],
    [system, asked("New?")],
    [system, asked("Hi"), asked("Again?")],
  ]);
  expect((await runSluice(["run", "-c", "job.yaml"], folder)).code).toBe(1);
  expect(jsonLinesIn(join(folder, "out"))).toHaveLength(3);
  const [failed] = jsonLinesIn(join(folder, "out/_dead-letters"));
  expect(JSON.stringify(failed)).toContain("prompt.history[0]: a turn is {user, bot}");
});
