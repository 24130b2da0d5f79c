import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";

const execute = promisify(execFile);

/** The script of a shell in a file; undefined where the shell is not on this machine. */
async function scriptFor(shell: string): Promise<string | undefined> {
  const isThere = await execute(shell, ["-c", "exit 0"]).then(
    () => true,
    () => false,
  );
  if (!isThere) return undefined;
  const folder = scratchFolder();
  const { code, stdout } = await runSluice(["completion", shell], folder);
  expect(code).toBe(0);
  const file = join(folder, `completion.${shell}`);
  writeFileSync(file, stdout);
  return file;
}

/** What is offered for the last of some words. */
type Offer = (file: string, words: readonly string[]) => [program: string, ...string[]];

const offers: Record<string, Offer> = {
  bash: (file, words) => [
    "bash",
    "--norc",
    "-c",
    `source ${file}; complete -p sluice >/dev/null || exit 3; COMP_WORDS=("$@"); ` +
      `COMP_CWORD=$(($# - 1)); _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`,
    "bash",
    ...words,
  ],
  // The parts of its completion system print what they are given to offer.
  zsh: (file, given) => [
    "zsh",
    "-fc",
    `compdef() {}; _files() { print FILES }; compadd() { print -l -- \${(P)2} }
     _describe() { print -l -- \${(P)2} }; source ${file}; words=("$@"); CURRENT=$#; _sluice`,
    "zsh",
    ...given,
  ],
  fish: (file, words) => [
    "fish",
    "--no-config",
    "-c",
    `source ${file}; complete -C "${words.join(" ")}"`,
  ],
};

describe("sluice completion", () => {
  for (const [shell, offer] of Object.entries(offers)) {
    it(`completes commands, options and their values in ${shell}`, async ({ skip }) => {
      const file = await scriptFor(shell);
      skip(file === undefined, `${shell} is not on this machine`);
      const offered = async (...words: string[]) => {
        const [program, ...parameters] = offer(file!, ["sluice", ...words]);
        const { stdout } = await execute(program, parameters);
        return stdout.split("\n").map((line) => line.split(/[\t:]/)[0]!);
      };
      expect(await offered("res")).toEqual(expect.arrayContaining(["resume", "results"]));
      expect(await offered("run", "--generation.te")).toContain("--generation.temperature");
      expect(await offered("model", "")).toEqual(expect.arrayContaining(["pull", "list"]));
      expect(await offered("completion", "")).toEqual(expect.arrayContaining(["bash", "fish"]));
      expect(await offered("retry", "out", "--where", "")).toContain("failed");
      expect(await offered("retry", "out", "--wh")).toContain("--where");
    });
  }

  it("refuses a shell that it does not know", async () => {
    const { code, stderr } = await runSluice(["completion", "tcsh"], scratchFolder());
    expect([code, stderr]).toEqual([64, expect.stringContaining("bash, zsh, fish")]);
  });
});
