import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { installed } from "../../../scripts/installing.ts";
import { missingOpenapi, openapiVersions } from "../../../scripts/kubernetes-openapi.ts";
import { renderIndexedJob } from "../../../src/backends/kubernetes/render.ts";
import { anyWork } from "./any-work.ts";
import { publishedSchema } from "./published-schema.ts";

const folder = join(import.meta.dirname, "../../golden/kubernetes");
const golden = readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
const everything = golden.find((text) => text.includes("suspend: true"))!;
await installed("kubernetes-openapi");
const missing = missingOpenapi();

describe.each(openapiVersions)("the manifest, by the OpenAPI of Kubernetes %s", (version) => {
  let check: ReturnType<typeof publishedSchema>;
  beforeAll(() => {
    if (missing === undefined) check = publishedSchema(version);
  });
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it("is valid in every golden file", () => {
    expect(golden.length).toBeGreaterThan(1);
    expect(golden.map((text) => check(parse(text)))).toEqual(golden.map(() => []));
  });

  it("is valid for any job", async () => {
    await fc.assert(
      fc.asyncProperty(anyWork, async (work) => {
        const { text } = await renderIndexedJob(work);
        // As kubectl reads it.
        expect(check(parse(text, { version: "1.1" }))).toEqual([]);
      }),
      { numRuns: 100, seed: 7 },
    );
  });

  const faults: [was: string, is: string, fault: string][] = [
    [
      "backoffLimitPerIndex:",
      "backoffLimitPerindex:",
      'spec: Unrecognized key: "backoffLimitPerindex"',
    ],
    ["parallelism: 3", 'parallelism: "3"', "spec.parallelism: "],
    ["completions: 3", "completions: 3000000000", "spec.completions: "],
    ["- name: worker", "- title: worker", "containers.0.name: "],
    ["operator: In", "operator: 1", "onExitCodes.operator: "],
    ["cpu: 3500m", "cpu: 3,5", "requests.cpu: "],
    ["suspend: true", 'suspend: "yes"', "spec.suspend: "],
    ["values:", "values: 1\n        others:", "onExitCodes.values: "],
    ["mountPath: /data", "mount: /data", "volumeMounts.0.mountPath: "],
    ["gpus", "{}", "labels.kueue.x-k8s.io/queue-name: "],
  ];
  it.each(faults)("is refused with %j as %j", (was, is, fault) => {
    expect(everything).toContain(was);
    const broken = parse(everything.replace(was, is));
    expect(check(broken).join("\n")).toContain(fault);
  });
});
