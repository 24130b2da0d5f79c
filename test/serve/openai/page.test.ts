import { describe, expect, it } from "vitest";
import { rangeOf } from "../../../src/serve/openai/files.ts";
import { lifeSeconds, pageOf } from "../../../src/serve/openai/page.ts";

const objects = ["a", "b", "c", "d"].map((id) => ({ id }));
const limits = { usual: 3, most: 10 };

describe("pageOf", () => {
  it("begins with the newest, and goes on after an object", () => {
    expect(pageOf(objects, {}, limits)).toEqual({
      ...{ object: "list", data: [{ id: "d" }, { id: "c" }, { id: "b" }] },
      ...{ first_id: "d", last_id: "b", has_more: true },
    });
    expect(pageOf(objects, { after: "b" }, limits)).toMatchObject({
      ...{ data: [{ id: "a" }], has_more: false },
    });
    expect(pageOf(objects, { after: "b", order: "asc", limit: "1" }, limits)).toMatchObject({
      ...{ data: [{ id: "c" }], has_more: true },
    });
  });

  it("goes on after an object that is gone", () => {
    const left = objects.filter(({ id }) => id !== "c");
    expect(pageOf(left, { after: "c" }, limits)).toMatchObject({
      data: [{ id: "b" }, { id: "a" }],
    });
  });

  it("is empty without objects", () => {
    const empty = { object: "list", data: [], first_id: null, last_id: null, has_more: false };
    expect(pageOf([], {}, limits)).toEqual(empty);
  });

  it("refuses other limits and orders", () => {
    for (const query of [{ limit: "0" }, { limit: "11" }, { limit: "x" }, { order: "up" }]) {
      expect(() => pageOf(objects, query, limits)).toThrow("it must be");
    }
  });
});

describe("lifeSeconds", () => {
  it("reads what OpenAI's clients send", () => {
    expect(lifeSeconds("a", undefined)).toBeUndefined();
    expect(lifeSeconds("a", { anchor: "created_at", seconds: "3600" })).toBe(3600);
    for (const seconds of [3599, 2_592_001, "x"]) {
      expect(() => lifeSeconds("a", { anchor: "created_at", seconds })).toThrow("field a.seconds");
    }
    expect(() => lifeSeconds("a", { anchor: "now", seconds: 3600 })).toThrow("field a.anchor");
  });
});

describe("rangeOf", () => {
  it("gives the bytes that a file has", () => {
    expect(rangeOf("bytes=0-", 10)).toEqual({ start: 0, end: 10 });
    expect(rangeOf("bytes=2-3", 10)).toEqual({ start: 2, end: 4 });
    expect(rangeOf("bytes=5-99", 10)).toEqual({ start: 5, end: 10 });
    expect(rangeOf("bytes=-3", 10)).toEqual({ start: 7, end: 10 });
    expect(rangeOf("bytes=-30", 10)).toEqual({ start: 0, end: 10 });
    for (const all of [undefined, "bytes=-", "bytes=3-1", "bytes=0-1,4-5", "lines=1-2"]) {
      expect(rangeOf(all, 10)).toBeUndefined();
    }
    for (const none of ["bytes=10-", "bytes=-0"]) {
      expect(() => rangeOf(none, 10)).toThrow("the file has no such bytes");
    }
  });
});
