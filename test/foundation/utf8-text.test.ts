import { describe, expect, it } from "vitest";
import { utf8Text } from "../../src/foundation/utf8-text.ts";

const read = (bytes: Buffer) => utf8Text(bytes, "JOB_INVALID", "job.yaml");

describe("utf8Text", () => {
  it("reads text, that of the sign for what could not be read included", () => {
    for (const text of ["", "a\nö\n", "\uFFFD\uFEFF"]) expect(read(Buffer.from(text))).toBe(text);
  });

  it.each([
    ["a: 1\nb: ö\n", "latin1", 2],
    ["ö", "latin1", 1],
    ["a: 1\nb: 2\nc: ü", "latin1", 3],
    ["\uFEFFa: 1\n", "utf16le", 1],
  ] as const)("names the line of %j in %s", (text, encoding, line) => {
    expect(() => read(Buffer.from(text, encoding))).toThrow(
      expect.objectContaining({
        code: "JOB_INVALID",
        message: expect.stringContaining(`it is not UTF-8 text (job.yaml:${line})`),
        hint: "save it as UTF-8",
      }),
    );
  });
});
