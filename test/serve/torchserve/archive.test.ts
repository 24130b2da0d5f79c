import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Zip, ZipPassThrough, type Zippable, zipSync } from "fflate";
import { afterEach, describe, expect, it } from "vitest";
import { openPromise } from "yauzl";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { unpackArchive, writeArchive } from "../../../src/serve/torchserve/archive.ts";

const manifestPath = "MAR-INF/MANIFEST.json";
const bytes = (text: string) => new TextEncoder().encode(text);

const manifest = (model: object = {}) =>
  bytes(JSON.stringify({ model: { modelName: "m", handler: "h.py", ...model } }));

const symlink = { os: 3, attrs: (0o120777 << 16) >>> 0 };

/** An archive that has a file twice, which the simple writer cannot make. */
function withTwice(name: string): Uint8Array {
  const chunks: Uint8Array[] = [];
  const zip = new Zip((_error, chunk) => void chunks.push(chunk));
  for (const [path, content] of [
    [manifestPath, manifest()],
    [name, bytes("1")],
    [name, bytes("2")],
  ] as const) {
    const entry = new ZipPassThrough(path);
    zip.add(entry);
    entry.push(content, true);
  }
  zip.end();
  return Buffer.concat(chunks);
}

/** The archive with a number of its headers changed: at that place behind each signature. */
function patched(zip: Uint8Array, signature: number, place: number, value: number): Uint8Array {
  const buffer = Buffer.from(zip);
  for (let at = 0; at + 4 < buffer.length; at++) {
    if (buffer.readUInt32LE(at) === signature) buffer.writeUInt32LE(value, at + place);
  }
  return buffer;
}

const deflated = 8;
const centralHeader = 0x02014b50;
const endOfZip = 0x06054b50;

const plain: Zippable = { [manifestPath]: manifest(), "h.py": bytes("x = 1\n") };

describe("model archives", () => {
  let folder = mkdtempSync(join(tmpdir(), "archive-"));

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
    folder = mkdtempSync(join(tmpdir(), "archive-"));
  });

  async function unpack(archive: Uint8Array) {
    const path = join(folder, "m.mar");
    writeFileSync(path, archive);
    return unpackArchive(path, join(folder, "models"));
  }

  /** The refusal of an archive, of which nothing may be kept. */
  async function refusal(archive: Uint8Array): Promise<string> {
    const error = await unpack(archive).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as SluiceError).code).toBe("ARCHIVE_INVALID");
    expect(readdirSync(folder).toSorted()).toEqual(["m.mar", "models"]);
    expect(readdirSync(join(folder, "models"))).toEqual([]);
    return (error as SluiceError).message;
  }

  it("are written and unpacked, once for each content", async () => {
    const weights = "weights ".repeat(300_000);
    writeFileSync(join(folder, "w.bin"), weights);
    writeFileSync(join(folder, "h.py"), "x = 1\n");
    const model = { modelName: "m", modelVersion: "2.5", handler: "h.py", serializedFile: "w.bin" };
    const files = ["h.py", "w.bin"].map((name) => ({ path: join(folder, name), name }));
    const target = join(folder, "m.mar");
    await writeArchive(target, { runtime: "python", model }, files);
    const first = await unpackArchive(target, join(folder, "models"));
    expect(first.manifest).toEqual({ runtime: "python", model });
    expect(readFileSync(join(first.directory, "w.bin"), "utf8")).toBe(weights);
    writeFileSync(join(first.directory, "mark"), "");
    const again = await unpackArchive(target, join(folder, "models"));
    expect(readdirSync(again.directory).toSorted()).toEqual(["MAR-INF", "h.py", "mark", "w.bin"]);
    const copy = join(folder, "copy.mar");
    await writeArchive(copy, { runtime: "python", model }, files);
    expect(readFileSync(copy).equals(readFileSync(target))).toBe(true);
  });

  it("have no entries that Java refuses: stored, with their sizes behind them", async () => {
    writeFileSync(join(folder, "h.py"), "");
    const model = { modelName: "m", modelVersion: "1.0", handler: "h.py" };
    const path = join(folder, "m.mar");
    const written = { runtime: "python", archiverVersion: "0.12.0", createdOn: "", model } as const;
    await writeArchive(path, written, [{ path: join(folder, "h.py"), name: "h.py" }]);
    const methods: Record<string, number> = {};
    for await (const { fileName, compressionMethod } of (await openPromise(path)).eachEntry()) {
      methods[fileName] = compressionMethod;
    }
    expect(methods).toEqual({ [manifestPath]: deflated, "h.py": deflated });
  });

  it("read a version that is a number, and files in folders", async () => {
    const { manifest: read, directory } = await unpack(
      zipSync({ ...plain, [manifestPath]: manifest({ modelVersion: 2 }), "a/b.txt": bytes("b") }),
    );
    expect(read.model.modelVersion).toBe("2");
    expect(readFileSync(join(directory, "a/b.txt"), "utf8")).toBe("b");
  });

  it.each([
    ["a path that leads out", "../evil.py", /invalid relative path/],
    ["a path that leads out later", "a/../../evil.py", /invalid relative path/],
    ["an absolute path", "/tmp/evil.py", /absolute path/],
    ["a path of Windows", "a\\..\\evil.py", /invalid characters/],
  ])("refuse %s", async (_what, name, message) => {
    expect(await refusal(zipSync({ ...plain, [name]: bytes("x") }))).toMatch(message);
  });

  it("refuse links and encrypted files", async () => {
    const linked = zipSync({ ...plain, link: [bytes("/etc/passwd"), symlink] });
    expect(await refusal(linked)).toContain("link is a link or a device");
    const encrypted = patched(zipSync(plain), centralHeader, 6, 0x0001_0014);
    expect(await refusal(encrypted)).toMatch(/encrypted/);
  });

  it("refuse a file that is there twice, and a file below a file", async () => {
    expect(await refusal(withTwice("h.py"))).toContain("h.py is there twice");
    const below = zipSync({ ...plain, "h.py/x": bytes("x") });
    expect(await refusal(below)).toMatch(/EEXIST|ENOTDIR/);
  });

  it("refuse bombs: by what they unpack to, whatever their headers say", async () => {
    const zeros = new Uint8Array(limits.smallArchiveBytes + 1);
    const bomb = zipSync({ ...plain, zeros: [zeros, { level: 9 }] });
    expect(bomb.length).toBeLessThan(zeros.length / limits.maxArchiveRatio);
    expect(await refusal(bomb)).toContain(`over ${limits.smallArchiveBytes} bytes`);
    const lying = patched(bomb, centralHeader, 24, 10);
    expect(await refusal(lying)).toMatch(/too many bytes|over/);
    const many = limits.maxArchiveFiles + 1;
    const claimed = patched(zipSync(plain), endOfZip, 8, (many << 16) | many);
    expect(await refusal(claimed)).toContain(`over ${limits.maxArchiveFiles} files`);
  });

  it("refuse what is not a whole zip", async () => {
    const path = join(folder, "m.mar");
    for (const content of [bytes("no zip"), zipSync(plain).slice(0, -30), new Uint8Array()]) {
      writeFileSync(path, content);
      await expect(unpackArchive(path, join(folder, "models"))).rejects.toThrow(SluiceError);
    }
  });

  it("refuse a file whose bytes have changed", async () => {
    const stored = Buffer.from(zipSync(plain, { level: 0 }));
    stored[stored.indexOf("x = 1")] = 0x79;
    expect(await refusal(stored)).toContain("h.py is damaged: its checksum differs");
  });

  it("name what is wrong in a manifest", async () => {
    const said = (value: Uint8Array | undefined) =>
      unpack(zipSync(value === undefined ? {} : { [manifestPath]: value })).catch(
        ({ message }: SluiceError) => message,
      );
    expect(await said(undefined)).toContain(`it has no ${manifestPath}`);
    expect(await said(bytes("{"))).toContain(manifestPath);
    expect(await said(bytes("{}"))).toContain("model: ");
    expect(await said(manifest({ handler: "../h.py" }))).toContain("model.handler: must be a file");
    expect(await said(bytes('{"runtime":"LSP","model":{}}'))).toContain("runtime: ");
  });
});
