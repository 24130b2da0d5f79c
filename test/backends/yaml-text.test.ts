import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { yamlText } from "../../src/backends/joining/yaml-text.ts";

const texts = [
  ...["yes", "on", "y", "N", "Off", "null", "~", "=", "1_000", "0b11", "0B1", "0o17", "0X1F"],
  ...[
    "-0o17",
    "0777",
    "12:30",
    "1e3",
    ".5",
    ".inf",
    "2001-01-01",
    "a: b",
    "- x",
    "'",
    " x ",
    "a\nb",
  ],
  ...["\u0085", "a\u2028b", "\ufeff", "\u007f", "\ufffe", "\u0001", "é 😀"],
];

describe("yamlText", () => {
  it("is read by each version of YAML as it is meant", async () => {
    const text = await yamlText(texts);
    expect(parse(text, { version: "1.1" })).toEqual(texts);
    expect(parse(text, { version: "1.2" })).toEqual(texts);
  });

  it("is read by Python as it is meant", async (context) => {
    const python = (program: string, input: string) =>
      spawnSync("python3", ["-c", `import json, sys, yaml; ${program}`], { input });
    context.skip(python("", "").status !== 0, "no Python with yaml");
    const program = "print(json.dumps(yaml.safe_load(sys.stdin.buffer)))";
    const { stdout, stderr } = python(program, await yamlText(texts));
    expect(`${stderr}`).toBe("");
    expect(JSON.parse(`${stdout}`)).toEqual(texts);
  });
});
