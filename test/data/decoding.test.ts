import { describe, expect, it } from "vitest";
import { decoding, isEncoding } from "../../src/data/decoding.ts";
import { bytesReader } from "../../src/data/storage/bytes-reader.ts";

async function textOf(bytes: Buffer, encoding: string): Promise<string> {
  const reader = decoding(bytesReader(bytes), "f.csv", encoding, "INPUT_UNREADABLE");
  const whole = Buffer.from(await reader.read(0, 10_000_000)).toString();
  // A read further back starts anew.
  expect(Buffer.from(await reader.read(0, 4)).toString()).toBe(
    Buffer.from(whole).subarray(0, 4).toString(),
  );
  await reader.close();
  return whole;
}

describe("decoding", () => {
  it("reads other encodings as UTF-8, across pieces, without their mark", async () => {
    const text = `a😀${"Käse ".repeat(200_000)}`;
    const little = Buffer.from(`\uFEFF${text}`, "utf16le");
    expect(await textOf(little, "utf-16")).toBe(text);
    const big = Buffer.from(little).swap16();
    expect(await textOf(big, "utf-16")).toBe(text);
    expect(await textOf(big.subarray(2), "utf-16be")).toBe(text);
    expect(await textOf(Buffer.from([0x80, 0xe9, 0x92]), "windows-1252")).toBe("€é’");
    expect(await textOf(Buffer.from([0xa4]), "ISO-8859-15")).toBe("€");
  });

  it("refuses bytes that are none of the encoding", async () => {
    const lone = Buffer.from([0x00, 0xd8, 0x41, 0x00]);
    await expect(textOf(lone, "utf-16")).rejects.toThrow("bytes are not utf-16");
    await expect(textOf(Buffer.from("abc"), "utf-16")).rejects.toThrow(/f\.csv/);
  });

  it("knows names of encodings", () => {
    expect(["UTF-16", "latin1", "shift_jis", "cp1252"].every(isEncoding)).toBe(true);
    expect(isEncoding("klingon")).toBe(false);
  });
});
