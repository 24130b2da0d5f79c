import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findProgram } from "../../src/engines/find-program.ts";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-program-"));
  for (const [name, mode] of [
    ["first/server", 0o644],
    ["second/server", 0o755],
  ] as const) {
    await mkdir(join(folder, name, ".."), { recursive: true });
    await writeFile(join(folder, name), "");
    await chmod(join(folder, name), mode);
  }
  await mkdir(join(folder, "first/folder"));
});

afterAll(() => rm(folder, { recursive: true }));

const find = (program: string) => {
  const PATH = ["relative", join(folder, "first"), join(folder, "second")].join(":");
  return findProgram(program, { PATH }, "pip install it");
};

describe("findProgram", () => {
  it("takes the first of PATH that can be run", async () => {
    expect(await find("server")).toBe(join(folder, "second/server"));
  });

  it("takes a path as it is", async () => {
    expect(await find(join(folder, "second/server"))).toBe(join(folder, "second/server"));
  });

  it("says how to get what is not there", async () => {
    const missing = { code: "PROGRAM_MISSING", hint: "pip install it" };
    for (const program of ["nothing", "folder", join(folder, "first/server")]) {
      await expect(find(program)).rejects.toMatchObject(missing);
    }
    await expect(findProgram("server", {}, "")).rejects.toMatchObject({
      code: "PROGRAM_MISSING",
    });
  });
});
