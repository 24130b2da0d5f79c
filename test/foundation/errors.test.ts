import { describe, expect, it } from "vitest";
import { type ErrorCode, errorTable } from "../../src/foundation/error-table.ts";
import {
  asSluiceError,
  errorFromRecord,
  locatedError,
  SluiceError,
} from "../../src/foundation/errors.ts";

describe("SluiceError", () => {
  it("says what happened, the detail and the place", () => {
    const error = new SluiceError("JSON_INVALID", "unexpected end", {
      file: "in.jsonl",
      line: 3,
      field: "text",
    });
    expect(error.message).toBe(
      `${errorTable.JSON_INVALID.message}: unexpected end (in.jsonl:3, field text)`,
    );
    expect(error.place).toEqual({ file: "in.jsonl", line: 3, field: "text" });
    expect(error.hint).toBe(errorTable.JSON_INVALID.hint);
  });

  it("keeps the query of an address to itself: it may hold a signature", () => {
    const file = "https://example.org/rows.jsonl?signature=secret#x";
    const error = new SluiceError("JSON_INVALID", "unexpected end", { file, line: 3 });
    expect(error.place.file).toBe("https://example.org/rows.jsonl");
    expect(error.message).toMatch(/ \(https:\/\/example\.org\/rows\.jsonl:3\)$/);
    const own = new SluiceError("FILE_UNREADABLE", "", { hint: "look there" });
    const located = locatedError(own, { file, line: 4 });
    expect(located.message).toMatch(/ \(https:\/\/example\.org\/rows\.jsonl:4\)$/);
    expect([located.code, located.hint]).toEqual([own.code, "look there"]);
    expect(locatedError(error, { file: "other", line: 1 })).toBe(error);
    const local = "/in/what?.jsonl";
    expect(new SluiceError("STORE_FULL", "", { file: local }).place.file).toBe(local);
  });

  it("needs neither detail nor place", () => {
    expect(new SluiceError("STORE_FULL").message).toBe(errorTable.STORE_FULL.message);
    expect(new SluiceError("STORE_FULL", "", { file: "out" }).message).toMatch(/ \(out\)$/);
  });

  it("takes scope, retryable and exit code from the table", () => {
    for (const code of Object.keys(errorTable) as ErrorCode[]) {
      const { scope, retryable, exitCode } = new SluiceError(code);
      expect({ scope, retryable, exitCode }).toEqual({
        scope: errorTable[code].scope,
        retryable: errorTable[code].retryable,
        exitCode: errorTable[code].exitCode,
      });
    }
  });

  it("keeps its cause, a hint of its own and the server's wish", () => {
    const cause = new Error("socket hang up");
    const error = new SluiceError("CONNECTION_LOST", "", { cause, hint: "wait", retryAfterMs: 5 });
    expect([error.cause, error.hint, error.retryAfterMs]).toEqual([cause, "wait", 5]);
    expect(error).toBeInstanceOf(Error);
  });
});

describe("errors as data", () => {
  it("cross a process and come back", () => {
    const error = new SluiceError("TIMEOUT", "after 600 s", { hint: "wait longer" });
    const back = errorFromRecord(JSON.parse(JSON.stringify(error)));
    expect(back.toJSON()).toEqual(error.toJSON());
    expect([back.scope, back.retryable]).toEqual([error.scope, error.retryable]);
  });

  it("keep their field and the server's words over processes and places", () => {
    const server = { status: 422, message: "too hot", type: "bad", param: null, code: 7 };
    const error = new SluiceError("REQUEST_REFUSED", "", { field: "body.temperature", server });
    const located = locatedError(errorFromRecord(JSON.parse(JSON.stringify(error))), {
      ...{ file: "in.jsonl", line: 2 },
    });
    expect(located.toJSON()).toMatchObject({ field: "body.temperature", server });
    expect(new SluiceError("TIMEOUT").toJSON()).not.toHaveProperty("server");
  });

  it("of a newer release are INTERNAL with their text", () => {
    const record = { code: "NOT_YET_KNOWN" as ErrorCode, message: "something new" };
    const error = errorFromRecord(record);
    expect([error.code, error.message]).toEqual(["INTERNAL", "something new"]);
  });

  it("are not taken from what every object has", () => {
    const record = { code: "toString" as ErrorCode, message: "odd" };
    expect(errorFromRecord(record).code).toBe("INTERNAL");
  });
});

describe("asSluiceError", () => {
  it("leaves its own errors as they are", () => {
    const error = new SluiceError("USAGE");
    expect(asSluiceError(error)).toBe(error);
  });

  it("names what was thrown otherwise, and keeps it", () => {
    const thrown = new TypeError("x is undefined");
    const error = asSluiceError(thrown);
    expect([error.code, error.cause]).toEqual(["INTERNAL", thrown]);
    expect(error.message).toContain("TypeError: x is undefined");
    expect(asSluiceError("text").message).toContain("text");
    expect(asSluiceError(undefined).message).toContain("undefined");
  });
});
