import fc from "fast-check";
import type { ShareWork } from "../../../src/backends/joining/scheduler.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";

type Options = NonNullable<JobInput["kubernetes"]>;

const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
const name = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join("."));
const key = fc.stringMatching(/^\w[-\w.]{0,60}$/);
const variable = fc.stringMatching(/^[A-Za-z_]\w{0,20}$/);
/** Texts that some readers of YAML take for something else, and any others. */
const text = fc.oneof(
  fc.constantFrom(
    ...["yes", "off", "n", "~", "null", "1_000", "0b11", "0o17", "0X1F", "12:30", "1e3", ".inf"],
    ...["2001-01-01", "<<", "=", "- x", "a: b", " x ", "x #y", "'", '"', "$(A)", "a\nb\n", "é\t"],
  ),
  fc.string({ unit: "grapheme-composite", maxLength: 30 }).filter((it) => !it.includes("\0")),
);
const labels = fc.dictionary(
  fc
    .tuple(
      fc.option(name, { nil: undefined }),
      fc.stringMatching(/^[A-Za-z0-9][-\w.]{0,60}[A-Za-z0-9]$/),
    )
    .map((parts) => parts.filter((part) => part !== undefined).join("/")),
  fc.oneof(
    fc.stringMatching(/^[A-Za-z0-9][-\w.]{0,60}[A-Za-z0-9]$/),
    fc.constantFrom("", "true", "1"),
  ),
  { maxKeys: 3 },
);
const path = fc.stringMatching(/^(\/[\w. -]{1,12}){1,3}$/).filter((it) => !/\/\.+(\/|$)/.test(it));
const reference = (kind: string) => name.map((of) => ({ [kind]: of }));
const volume = fc
  .tuple(
    fc.record(
      { path, subPath: fc.stringMatching(/^\w{1,9}(\/\w{1,9})?$/), readOnly: fc.boolean() },
      { requiredKeys: ["path"] },
    ),
    fc.oneof(
      ...["claim", "secret", "configMap"].map(reference),
      path.map((hostPath) => ({ hostPath })),
      fc.constantFrom("20Gi", "1.5Gi", "500M").map((emptyDir) => ({ emptyDir })),
    ),
  )
  .map(([mount, kind]) => ({ ...mount, ...kind }));
const toleration = fc.oneof(
  fc.record(
    {
      key: name,
      value: fc.stringMatching(/^[a-z0-9]{1,9}$/),
      effect: fc.constantFrom("NoSchedule" as const, "PreferNoSchedule" as const),
    },
    { requiredKeys: ["key"] },
  ),
  fc.constant({ operator: "Exists" as const }),
);

const options: fc.Arbitrary<Options> = fc.record(
  {
    image: fc.stringMatching(/^[a-z0-9.]{1,20}(\/[a-z0-9]{1,9})?(:[\w.]{1,9})?$/),
    command: fc.array(text.filter(Boolean), { minLength: 1, maxLength: 3 }),
    setup: text.filter(Boolean),
    namespace: fc.constant("default"),
    queue: label,
    priorityClass: fc.constantFrom("system-cluster-critical", "system-node-critical"),
    serviceAccount: name,
    user: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    imagePullSecrets: fc.uniqueArray(name, { maxLength: 2 }),
    nodeSelector: labels,
    tolerations: fc.array(toleration, { maxLength: 3 }),
    gpuResource: fc.constantFrom("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb"),
    volumes: fc.uniqueArray(volume, { maxLength: 4, selector: (it) => it.path }),
    env: fc.dictionary(
      variable,
      fc.oneof(text, fc.record({ secret: name, key }), fc.record({ configMap: name, key })),
      { maxKeys: 5 },
    ),
    envFrom: fc.array(fc.oneof(fc.record({ secret: name }), fc.record({ configMap: name })), {
      maxLength: 3,
    }),
    retries: fc.integer({ min: 0, max: 1000 }),
    gracePeriodSeconds: fc.integer({ min: 15, max: 86_400 }),
    keepSeconds: fc.nat(),
  },
  { requiredKeys: ["image"] },
);

const workers = fc.record(
  {
    max: fc.integer({ min: 1, max: 100_000 }),
    cpu: fc.double({ min: 0, minExcluded: true, max: 512, noNaN: true }),
    memory: fc.stringMatching(/^\d{1,4}(\.\d{1,3})? ?[KMGTkmgt]i?[Bb]?$/),
    gpu: fc.constantFrom("1", "8", "l40s:2", "l40s"),
  },
  { requiredKeys: ["max"] },
);

/** Whatever a job of this backend may ask for, and any shares of a run. */
export const anyWork: fc.Arbitrary<ShareWork> = fc
  .record({
    job: fc.record(
      { name: text, workers, kubernetes: options },
      { requiredKeys: ["workers", "kubernetes"] },
    ),
    location: fc.oneof(
      path,
      text.filter(Boolean).map((it) => `s3://bucket/${it}`),
    ),
    generation: fc.integer({ min: 1, max: 9 }),
    shares: fc.uniqueArray(fc.nat({ max: 9999 }), { minLength: 1, maxLength: 40 }),
  })
  .map(({ job, shares, ...work }) => ({
    ...work,
    job: jobSchema.parse({
      input: "s3://bucket/in.jsonl",
      model: { engine: "fake" },
      prompt: "p",
      output: { path: "s3://bucket/out" },
      backend: "kubernetes",
      ...job,
    }),
    takers: 10_000,
    shares: shares.toSorted((a, b) => a - b),
    program: ["sluice"],
  }));
