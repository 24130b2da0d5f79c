import { describe, expect, it } from "vitest";
import { parseLineTemplate, renderFilled, renderLine } from "../../src/prompt/line-template.ts";

describe("parseLineTemplate", () => {
  it("parts text and names, and takes doubled braces as they are meant", () => {
    expect(parseLineTemplate("a={a}, {{b}} { c }.")).toEqual({
      texts: ["a=", ", {b} ", "."],
      names: ["a", "c"],
    });
  });

  it.each(["{a", "a}", "{}", "{ }"])("refuses %j", (source) => {
    expect(() => parseLineTemplate(source)).toThrow(/lone|nothing/);
  });
});

describe("renderFilled", () => {
  const filled = (source: string, values: Record<string, string>) =>
    renderFilled(parseLineTemplate(source), (name) => values[name] ?? null);

  it.each([
    ["t={t}, d={d}", { t: "hot", d: "5 min" }, "t=hot, d=5 min"],
    ["t={t}, d={d}", { d: "5 min" }, "d=5 min"],
    ["t={t}, d={d}", { t: "hot" }, "t=hot"],
    ["t={t}, d={d}", {}, ""],
    ["t={t}; d={d}; e={e}", { t: "1", e: "3" }, "t=1; e=3"],
    ["cooking time: {t}, oven: {d}.", { d: "hot" }, "oven: hot."],
    ["Step: t={t}, d={d}", { d: "5" }, "Step: d=5"],
    ["(t={t}, d={d})", { d: "5" }, "(d=5)"],
    ["{t} degrees, {d} minutes", { t: "350" }, "350 degrees"],
    ["{t} degrees, {d} minutes", { d: "5" }, "5 minutes"],
    ["{t} for {d}", { t: "low" }, "low"],
    ["{t} for {d}", { d: "5 min" }, "for 5 min"],
  ])("%j with %j", (source, values, line) => {
    expect(filled(source, values as Record<string, string>)).toBe(line);
  });

  it("gives the whole line where everything is filled", () => {
    const source = "a: x={a} deg., y={b} for {c}!";
    const template = parseLineTemplate(source);
    expect(renderFilled(template, (name) => name)).toBe(renderLine(template, (name) => name));
  });
});
