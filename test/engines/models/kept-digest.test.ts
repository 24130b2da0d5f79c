import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { keptSha256 } from "../../../src/engines/models/kept-digest.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";

describe("keptSha256", () => {
  let folder: string;
  let files: string[];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sluice-digest-"));
    files = [join(folder, "a.gguf"), join(folder, "b.gguf")];
    write("one", "two");
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Writes both files, changed at a time that is told. */
  function write(first: string, second: string, seconds = 1000): void {
    for (const [at, text] of [first, second].entries()) {
      writeFileSync(files[at]!, text);
      utimesSync(files[at]!, seconds, seconds);
    }
  }
  const digest = (home = join(folder, "home")) => keptSha256(files, home);

  it("is that of the files one after another, and follows what changes", async () => {
    expect(await digest()).toBe(sha256Hex("onetwo"));
    write("one", "2wo", 1001);
    expect(await digest()).toBe(sha256Hex("one2wo"));
    write("one", "longer", 1001);
    expect(await digest()).toBe(sha256Hex("onelonger"));
  });

  it("is not computed again while size and time stay", async () => {
    await digest();
    write("ONE", "two");
    expect(await digest()).toBe(sha256Hex("onetwo"));
  });

  it("is computed where nothing can be kept", async () => {
    expect(await digest(files[0])).toBe(sha256Hex("onetwo"));
  });

  it("says which file cannot be read", async () => {
    rmSync(files[1]!);
    await expect(digest()).rejects.toThrow("b.gguf");
  });
});
