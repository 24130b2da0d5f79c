import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";

it("--prompt-file takes the template from a file, as it stands there", async () => {
  const folder = scratchFolder();
  const template = "[INST]\nSum up:\n\n{{ text }}\n[/INST]";
  writeFileSync(join(folder, "prompt.txt"), `${template}\n`);
  writeFileSync(join(folder, "rows.jsonl"), '{"text": "It rained."}\n');
  const job = ["--input", "rows.jsonl", "--model", "fake", "--output", "out"];
  const call = (...parameters: string[]) => runSluice([...parameters, ...job], folder);
  const planned = await call("plan", "--prompt-file", "prompt.txt", "--json");
  const { shown } = JSON.parse(planned.stdout);
  expect(shown[0].requests[0].messages).toEqual([
    { role: "user", content: template.replace("{{ text }}", "It rained.") },
  ]);
  expect((await call("run", "--prompt-file", "prompt.txt")).code).toBe(0);
  // The text is the prompt: to give it itself is the same run.
  const again = await call("run", "--prompt", template);
  expect(again.stderr + again.stdout).not.toContain("RUN_DIFFERS");
  expect(again.code).toBe(0);
  const both = await call("run", "--prompt-file", "prompt.txt", "--prompt", "a");
  expect(both.stderr).toContain("--prompt and --prompt-file");
  const missing = await call("run", "--prompt-file", "promt.txt");
  expect(missing.stderr).toContain("--prompt-file: there is no such file");
  expect([both.code, missing.code]).toEqual([64, 64]);
  writeFileSync(join(folder, "latin.txt"), Buffer.from("Größe\n", "latin1"));
  const latin = await call("run", "--prompt-file", "latin.txt");
  expect(latin.stderr).toContain("it is not UTF-8 text (latin.txt:1)");
  const latinJob = Buffer.from(`input: rows.jsonl\nname: Größe\nprompt: a\n`, "latin1");
  writeFileSync(join(folder, "job.yaml"), latinJob);
  const refused = await call("run", "job.yaml", "--output", "out-2");
  expect(refused.stderr).toContain("it is not UTF-8 text (job.yaml:2)");
  expect([latin.code, refused.code]).toEqual([64, 64]);
});
