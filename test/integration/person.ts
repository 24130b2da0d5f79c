import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { scratchFolder } from "../run/whole-run.ts";

/** What a person does in a folder of their own, through the packed program. */
export function person() {
  const folder = scratchFolder();
  const call = async (...parameters: string[]) => {
    const { code, stdout, stderr } = await runSluice([...parameters, "--quiet"], folder);
    const last = stdout.trimEnd().split("\n").at(-1) ?? "";
    const summary = last.startsWith("{") ? JSON.parse(last) : undefined;
    return { code, stdout, stderr, summary };
  };
  return {
    folder,
    /** A command without its progress, and the summary that it prints. */
    call,
    plain: (...parameters: string[]) => runSluice(parameters, folder),
    /** A command that starts no worker, in this process, by the sources. */
    look: (...parameters: string[]) => callHere(parameters, folder),
    write: (name: string, text: string) => writeFileSync(join(folder, name), text),
    read: (name: string) => readFileSync(join(folder, name), "utf8"),
  };
}

export type Person = ReturnType<typeof person>;

/** Manifest, summary and status of the run in `out` say the same of its rows, and it is proven. */
export async function expectRows(
  { plain, read }: Person,
  rows: { total: number; answered: number; failed: number },
): Promise<void> {
  const status = JSON.parse((await plain("status", "out", "--json")).stdout);
  expect(status.rows).toMatchObject(rows);
  expect(status.state).toBe(rows.failed > 0 ? "failed" : "successful");
  const { manifest } = JSON.parse(read("out/_SUCCESS"));
  expect(JSON.parse(read(`out/${manifest}`)).rows).toMatchObject(rows);
  const verified = await plain("verify", "out");
  expect(verified.stdout + verified.stderr).toContain(`${rows.total} rows`);
  expect(verified.code).toBe(0);
}
