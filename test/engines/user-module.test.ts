import { expect, it } from "vitest";
import { explained } from "../../src/engines/user-module.ts";

it("says what was thrown, and where in the module", () => {
  const error = new TypeError("no such field");
  error.stack = "TypeError: no such field\n    at lib.js:3:1\n    at predict (file:///a/p.ts:12:5)";
  expect(explained(error, "/a/p.ts")).toBe("TypeError: no such field (p.ts:12)");
  expect(explained(error, "/a/other.ts")).toBe("TypeError: no such field");
  expect(explained(new Error("plain"), "/a/other.ts")).toBe("plain");
  expect(explained("a text", "/a/p.ts")).toBe("a text");
  expect(explained({ status: 500, body: "busy" }, "/a/p.ts")).toBe("{ status: 500, body: 'busy' }");
  // Without a prototype, it cannot become a text by itself.
  expect(explained(Object.create(null), "/a/p.ts")).toBe("[Object: null prototype] {}");
});
