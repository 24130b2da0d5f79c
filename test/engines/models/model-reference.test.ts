import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseModelName } from "../../../src/engines/models/model-reference.ts";

describe("parseModelName", () => {
  it("knows the catalog", () => {
    expect(parseModelName("smollm2-135m-instruct")).toMatchObject({
      kind: "catalog",
      entry: { file: "SmolLM2-135M-Instruct.Q4_1.gguf" },
    });
  });

  it("names the nearest catalog model", () => {
    expect(() => parseModelName("smolm2-135m-instruct")).toThrow(
      expect.objectContaining({
        code: "MODEL_UNKNOWN",
        message: expect.stringContaining("did you mean smollm2-135m-instruct?"),
      }),
    );
  });

  it.each([
    ["./a.gguf", "/work/a.gguf"],
    ["a.gguf", "/work/a.gguf"],
    ["models/a.gguf", "/work/models/a.gguf"],
    ["/b/a.gguf", "/b/a.gguf"],
    ["file:///b/a%20c.gguf", "/b/a c.gguf"],
    ["file:a.gguf", "/work/a.gguf"],
  ])("reads %s as a path", (name, path) => {
    expect(parseModelName(name, "/work")).toEqual({ kind: "path", name, path });
  });

  it("reads a hub name with folders and a revision", () => {
    expect(parseModelName("hf:own-er/re.po@v1.2/q4/a.gguf")).toEqual({
      kind: "hub",
      name: "hf:own-er/re.po@v1.2/q4/a.gguf",
      repository: "own-er/re.po",
      revision: "v1.2",
      file: "q4/a.gguf",
    });
    expect(parseModelName("hf:o/r/a.gguf")).toMatchObject({ revision: "main", file: "a.gguf" });
  });

  it("names the file of an address safely", () => {
    expect(parseModelName("https://h/x/a%2Fb%20c.gguf?y=1")).toMatchObject({ file: "b-c.gguf" });
  });

  it("refuses an address with a password, without repeating it", () => {
    const parse = () => parseModelName("https://me:hush@h/a.gguf?sig=hush");
    expect(parse).toThrow(/https:\/\/h\/a\.gguf: the address holds a user or password/);
    expect(parse).not.toThrow(/hush/);
  });

  it.each(["hf:owner/a.gguf", "hf:o/r/../../a.gguf", "hf:o/r/a.bin", "s3://b/a.gguf"])(
    "refuses %s",
    (name) => {
      expect(() => parseModelName(name)).toThrow(
        expect.objectContaining({ code: "MODEL_UNKNOWN" }),
      );
    },
  );

  it("refuses one part of a split model", () => {
    expect(() => parseModelName("hf:o/r/a-00001-of-00003.gguf")).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED" }),
    );
    expect(parseModelName("hf:o/r/a-00001-of-00001.gguf")).toMatchObject({ kind: "hub" });
  });

  it("takes an address with a percent sign that begins no escape", () => {
    const reference = parseModelName("https://example.com/a%20b%/half%.gguf");
    expect(reference).toMatchObject({ kind: "url", file: "half-.gguf" });
  });

  it("either reads a name or refuses it by code", () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.constantFrom("", "hf:", "https://", "file:", "./"),
        (text, head) => {
          try {
            expect(parseModelName(head + text).name).toBe(head + text);
          } catch (error) {
            expect(error).toMatchObject({ code: expect.stringMatching(/^(MODEL_|UNSUPPORTED)/) });
          }
        },
      ),
    );
  });
});
