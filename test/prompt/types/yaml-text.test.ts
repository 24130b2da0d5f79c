import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Json } from "../../../src/foundation/json.ts";
import { yamlText } from "../../../src/prompt/types/yaml-text.ts";

// Values and what PyYAML 6.0.3 makes of them by `yaml.dump(value, default_flow_style=False)`.
const file = join(import.meta.dirname, "yaml-text.json");
const cases = JSON.parse(readFileSync(file, "utf8")) as [Json, string][];

describe("yamlText", () => {
  it("writes what PyYAML writes", () => {
    expect(cases).toHaveLength(3);
    for (const [value, text] of cases) expect(yamlText(value)).toBe(text);
  });
});
