import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { limits } from "../../src/foundation/limits.ts";
import { edgesOf, root, sourceFiles } from "../meta/source-tree.ts";

const page = readFileSync(join(root, "docs/telemetry.md"), "utf8");
/** The first cells of the table of variables. */
const documented = new Set(
  page
    .split("\n")
    .filter((line) => line.startsWith("| `OTEL_") || line.startsWith("| `TRACEPARENT"))
    .flatMap((line) => line.split(" | ")[0]!.match(/[A-Z][A-Z_]+/g) ?? []),
);

/** All JavaScript of a package that the bundle takes. */
function codeOf(name: string): string {
  const folder = join(root, "node_modules/@opentelemetry", name, "build/src");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files
    .filter((path) => path.endsWith(".js") && !path.includes("browser"))
    .map((path) => readFileSync(join(folder, path), "utf8"))
    .join("\n");
}

describe("docs/telemetry.md", () => {
  const ours = sourceFiles("src").filter(({ path }) => /^src\/(telemetry|api)\//.test(path));
  const texts = ours.map(({ text }) => text).join("\n");

  it("has each variable that the code reads", () => {
    const read = new Set(texts.match(/\b(OTEL_[A-Z_]+[A-Z]|TRACEPARENT|TRACESTATE)\b/g));
    expect(read.size).toBeGreaterThanOrEqual(10);
    expect([...read].filter((name) => !documented.has(name))).toEqual([]);
  });

  it("has no variable that nobody reads", () => {
    const packages = ["sdk-trace-base", "otlp-exporter-base", "resources"].map(codeOf).join("\n");
    // Composed from the name of the signal.
    const composed = packages.replaceAll(/\$\{signalIdentifier\}/g, "TRACES");
    const unread = [...documented].filter((name) => !`${texts}\n${composed}`.includes(name));
    expect(documented.size).toBeGreaterThanOrEqual(25);
    expect(unread).toEqual([]);
  });

  it("says the limits as they are", () => {
    const { maxTelemetryFlushMs, tracedRequestsPerSecond } = limits;
    expect(page).toContain(`after ${maxTelemetryFlushMs / 1000} s (\`maxTelemetryFlushMs\`)`);
    expect(page).toContain(`${tracedRequestsPerSecond} in a second (\`tracedRequestsPerSecond\`)`);
  });
});

describe("OpenTelemetry's packages", () => {
  it("are loaded late: no module imports their user at once", () => {
    const users = sourceFiles("src").filter(({ imports }) =>
      imports.some(({ specifier }) => specifier?.startsWith("@opentelemetry/")),
    );
    const paths = users.map(({ path }) => path);
    expect(paths).toContain("src/telemetry/open.ts");
    const edges = sourceFiles("src").flatMap(edgesOf);
    const early = edges.filter(
      ({ from, to, kind }) =>
        paths.includes(to) && !paths.includes(from) && kind !== "type" && kind !== "dynamic",
    );
    expect(early.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });
});
