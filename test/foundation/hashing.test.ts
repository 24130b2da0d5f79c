import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { digestOf, sha256Hex, sha256Stream } from "../../src/foundation/hashing.ts";

describe("sha256Hex", () => {
  it("knows the digests of FIPS 180", () => {
    expect(sha256Hex("abc")).toBe(
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
    expect(sha256Hex("")).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  });

  it("takes a string as its UTF-8", () => {
    expect(sha256Hex("å🍲")).toBe(sha256Hex(Buffer.from("å🍲", "utf8")));
  });
});

describe("sha256Stream", () => {
  it("gives the digest of the whole, however it is cut", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 8 }), (pieces) => {
        const stream = sha256Stream();
        for (const piece of pieces) stream.update(piece);
        return stream.digest("hex") === sha256Hex(Buffer.concat(pieces));
      }),
    );
  });
});

describe("digestOf", () => {
  it("is the same for equal values and another for others", () => {
    expect(digestOf({ a: 1, b: [2] })).toBe(digestOf({ b: [2], a: 1 }));
    expect(digestOf({ a: 1 })).not.toBe(digestOf({ a: "1" }));
  });
});
