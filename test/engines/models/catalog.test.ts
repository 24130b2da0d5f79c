import { describe, expect, it } from "vitest";
import { catalog, catalogEntry } from "../../../src/engines/models/catalog.ts";

describe("catalog", () => {
  it("pins every file", () => {
    expect(catalog.length).toBeGreaterThan(0);
    for (const entry of catalog) {
      expect(entry.sha256, entry.name).toMatch(/^[0-9a-f]{64}$/);
      expect(entry.bytes).toBeGreaterThan(0);
      expect(entry.file).toMatch(/^[\w.-]+\.gguf$/);
      expect(entry.name).toMatch(/^[a-z0-9.-]+$/);
    }
  });

  it("tries the hub first and a path of the user's last", () => {
    for (const { mirrors } of catalog) {
      expect(mirrors[0]?.kind).toBe("hub");
      expect(mirrors.at(-1)?.kind).toBe("path");
    }
  });

  it("lists what it knows when nothing is near", () => {
    expect(() => catalogEntry("gpt")).toThrow(/known: smollm2-135m-instruct/);
  });
});
