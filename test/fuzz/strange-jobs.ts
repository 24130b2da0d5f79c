import { type Random, seededRandom } from "../../src/foundation/random.ts";

/** A job as a stranger might write it: the bytes of a file, or a value of a program. */
export type StrangeJob =
  | { kind: "file"; bytes: Uint8Array }
  | { kind: "value"; value: Record<string, unknown> };

/** The job that a seed draws. */
export function strangeJob(seed: number): StrangeJob {
  const draw = new Draw(seededRandom(seed));
  const job = { ...baseJob(), ...draw.one(parts)(draw) };
  if (draw.chance(0.25)) {
    for (let times = draw.upTo(3); times >= 0; times--) spoil(job, draw);
    return { kind: "value", value: job };
  }
  let text = JSON.stringify(job);
  // Depth would make so much white space of it that nothing but the test took memory.
  if (draw.chance(0.5) && text.length < 100_000) text = JSON.stringify(job, null, 2);
  if (draw.chance(0.3)) text = draw.one(yamlTricks)(text, draw);
  const bytes = Buffer.from(text);
  return { kind: "file", bytes: draw.chance(0.15) ? broken(bytes, draw) : bytes };
}

class Draw {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  chance(share: number): boolean {
    return this.#random.next() < share;
  }

  upTo(most: number): number {
    return Math.floor(this.#random.next() * (most + 1));
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.upTo(items.length - 1)]!;
  }

  some<Item>(items: readonly Item[], most: number): Item[] {
    return Array.from({ length: 1 + this.upTo(most - 1) }, () => this.one(items));
  }
}

type Job = Record<string, unknown>;

const baseJob = (): Job => ({
  input: "rows.jsonl",
  model: { engine: "fake" },
  prompt: "{{ text }}",
  output: "out",
});

const fragments = [
  "{{ text }}",
  "{% for i in range(9999) %}{{ i }}{% endfor %}",
  "{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}{% endfor %}" +
    "{% endfor %}{% endfor %}",
  "{% for i in many %}{% for j in many %}{% for k in many %}x{% endfor %}{% endfor %}{% endfor %}",
  "{% set ns = namespace(t='ab') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
  "{% set ns = namespace(t=[1]) %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
  "{% set ns = namespace(n=99) %}{% for i in range(60) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
  "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
  "{% macro f(x) %}{% for i in range(9) %}{{ f(x) }}{% endfor %}{% endmacro %}{{ f(1) }}",
  "{{ __proto__ }}",
  "{{ constructor.constructor('return process')() }}",
  "{{ row.__proto__.polluted }}{{ row['constructor'] }}{{ text.__class__ }}",
  "{{ text | indent(999999999) }}",
  "{{ row | tojson(indent=400000000) }}",
  "{{ '%999999999d' | format(7) }}",
  "{{ '%.999f' | format(7) }}",
  "{{ 7 | round(999999999) }}",
  "{{ 9 ** 99999999 }}",
  "{{ text | replace('', text * 9) }}",
  "{{ text | replace('a', text) | replace('a', text) | replace('a', text) }}",
  "{{ text | truncate(-5) }}{{ text | center(99999999) }}",
  "{{ many | join(text) | sentences | words }}",
  "{{ many | map('string') | unique | sort | list }}",
  "{{ raise_exception('no') }}",
  "{{ ((((((((((1)))))))))) }}",
  "{{ text[::-1] }}{{ text[0:99999999] }}{{ many[1:2:0] }}",
  `{% set a = [1, 1, 1, 1] %}${"{% set a = [a, a, a, a] %}".repeat(20)}{{ a | length }}{{ a }}`,
  `{% set a = [text, many] %}${"{% set a = [a, a, a, a] %}".repeat(5)}{{ a | tojson(indent=999) }}`,
  "{% for i in range(9999) %}{{ many }}{{ row }}{% endfor %}",
  "{% set ns = namespace(t='a b ') %}{% for i in range(22) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}" +
    "{{ ns.t | words }}{{ ns.t.split() }}{{ ns.t | list }}{{ ns.t | escape }}",
  "{% set ns = namespace(t='a\n&') %}{% for i in range(22) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}" +
    "{{ ns.t | lines | length }}{{ ns.t | title | striptags | escape | length }}",
  "{% set l = many %}".concat(
    "{% set l = l + many %}{% set k = l[1:] | map('string') | list %}".repeat(99),
  ),
  "{% macro f() %}{{ f(*varargs) }}{% endmacro %}{{ f(*many) }}",
  "{{ [1] | batch(99999999, 1) }}{{ text.replace('', text).replace('', text) }}",
  `{{ [${"1, ".repeat(150_000)}1] | length }}`,
  "{{ text }}".repeat(50_000),
  "x".repeat(900_000),
  "{{",
  "{% endfor %}",
  "{% if %}",
  "{#",
  "\u0000\ud800{{ text }}",
  `{{ ${"(".repeat(3000)}1${")".repeat(3000)} }}`,
  `{{ ${"not ".repeat(5000)}text }}`,
  `{{ ${Array(3000).fill("text").join(" ~ ")} }}`,
  "{% if text %}".repeat(2000) + "{% endif %}".repeat(2000),
  `{{ text${".a".repeat(3000)} }}`,
  `{{ text${" | upper".repeat(3000)} }}`,
];

const nested = (depth: number, wrap: (inner: unknown) => unknown, inner: unknown = {}): unknown => {
  let value = inner;
  for (let level = 0; level < depth; level++) value = wrap(value);
  return value;
};

const loop = { type: "object", properties: { a: { $ref: "#" }, b: { $ref: "#" } } };

const schemas: readonly unknown[] = [
  loop,
  { ...loop, required: ["a", "b"] },
  { type: "array", items: { $ref: "#" }, minItems: 4, maxItems: 9 },
  { $ref: "#" },
  { $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" },
  { $ref: "#/__proto__" },
  { $ref: "#/constructor/prototype" },
  { $ref: "#/%E0%A4%A" },
  { type: "object", properties: { constructor: { type: "string" }, toString: { type: "null" } } },
  {
    type: "array",
    items: { type: "array", items: { type: "integer" }, minItems: 1e6 },
    minItems: 1e6,
  },
  { type: "string", pattern: "((a{1000}){1000}){1000}" },
  { type: "string", pattern: "(?:(?:(?:x|y){9}|z){9}|w){9}" },
  { type: "string", pattern: "(" },
  { type: "string", pattern: `${"(".repeat(5000)}a${")*".repeat(5000)}` },
  { $defs: chained(20_000, (ref) => ref), $ref: "#/$defs/d0" },
  { $defs: chained(20_000, (ref) => ({ type: "array", items: ref })), $ref: "#/$defs/d0" },
  { anyOf: manyKeys().map((key) => ({ type: "string", pattern: key })) },
  { type: "string", minLength: 1e9 },
  { type: "integer", minimum: -1e308, maximum: 1e308, multipleOf: 5e-324 },
  { enum: Array.from({ length: 20_000 }, (_, at) => `value ${at}`) },
  nested(90, (inner) => ({ type: "array", items: inner }), { type: "string" }),
  nested(4000, (inner) => ({ type: "array", items: inner }), { type: "string" }),
  nested(14, (inner) => ({ anyOf: [inner, inner] }), { type: "string" }),
  nested(14, (inner) => ({ type: "object", properties: { a: inner, b: inner } }), { type: "null" }),
  {
    type: "object",
    properties: Object.fromEntries(manyKeys().map((key) => [key, { type: "null" }])),
  },
];

function chained(length: number, next: (ref: unknown) => unknown): Record<string, unknown> {
  const chain: Record<string, unknown> = { [`d${length}`]: { type: "string" } };
  for (let at = 0; at < length; at++) chain[`d${at}`] = next({ $ref: `#/$defs/d${at + 1}` });
  return chain;
}

function manyKeys(): string[] {
  return Array.from({ length: 3000 }, (_, at) => `key${at}`);
}

/** What a job may say besides: each makes some of its keys. */
const parts: readonly ((draw: Draw) => Job)[] = [
  (draw) => ({ prompt: draw.some(fragments, 4).join("") }),
  (draw) => ({ prompt: draw.some(fragments, 2).join("") }),
  (draw) => ({ prompt: undefined, prompts: { a: { prompt: "x", schema: draw.one(schemas) } } }),
  (draw) => ({ prompt: undefined, prompts: { a: { prompt: "x", schema: draw.one(schemas) } } }),
  (draw) => ({ input: { path: "rows.jsonl", schema: draw.one(schemas) } }),
  (draw) => ({
    prompt: { prompt: "{{ item }}", forEach: draw.one(["many", "range(9999)", "row"]) },
  }),
  (draw) => ({
    output: draw.one(["out/{id}.txt", "out/{__proto__}", "", "\u0000", "{".repeat(9999)]),
  }),
  (draw) => ({
    input: draw.one(["{a,b}".repeat(20), "+(+(+(a)))b", "[", "rows.jsonl\u0000", "**/**/**/x"]),
  }),
];

/** Turns JSON text into YAML that is meant to break its reader. */
const yamlTricks: readonly ((text: string, draw: Draw) => string)[] = [
  (text) => `${bomb(9, 9)}\nname: *a8\n${flow(text)}`,
  (text) => `${bomb(4, 4)}\nname: *a3\n${flow(text)}`,
  (text) => `env: &x {a: *x}\n${flow(text)}`,
  (text) => `name: &x [*x, *x]\n${flow(text)}`,
  (text) => `base: &b {limit: 1}\n<<: *b\n${flow(text)}`,
  (text) => `name: ${"[".repeat(20_000)}${"]".repeat(20_000)}\n${flow(text)}`,
  (text) => `name: ${"{a: ".repeat(200)}1${"}".repeat(200)}\n${flow(text)}`,
  (text) => `${"- ".repeat(3000)}x\n${text}`,
  (text) => `name: [${"1,".repeat(400_000)}]\n${flow(text)}`,
  (text) => `env:\n ${manyKeys().join(": x\n ")}: x\n${flow(text)}`,
  (text) => `__proto__: {limit: 1}\n${flow(text)}`,
  (text) => `constructor: {prototype: {limit: 1}}\ntoString: 1\n${flow(text)}`,
  (text) => `env: {__proto__: x}\nmodel.__proto__.x: 1\n${flow(text)}`,
  (text) => `name: !!js/function 'function(){}'\n${flow(text)}`,
  (text) => `name: !!binary gIGC\nlimit: !!set {1, 2}\n${flow(text)}`,
  (text) => `name: "${"${A:-".repeat(20_000)}"\n${flow(text)}`,
  (text) => `? [1, 2]\n: 3\n${flow(text)}`,
  (text) => `${text}\n---\n${text}`,
  (text) => `limit: 99999999999999999999999\nsample: .nan\n${flow(text)}`,
  (text) => `limit: 0x1p9\nbudget: {usd: .inf, tokens: -0}\n${flow(text)}`,
  (text, draw) => text.replaceAll('"', () => draw.one(['"', '"', '"', "'", "\u0000"])),
  (text) => `%YAML 9.9\n---\n${text}`,
  () => "",
  () => "[]",
  () => "null",
  () => "\ufeff\u0000",
];

/** A flow mapping as lines of a block mapping, so that other keys may stand before them. */
function flow(text: string): string {
  const job = JSON.parse(text) as Job;
  return Object.entries(job)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
    .join("\n");
}

function bomb(levels: number, width: number): string {
  return Array.from({ length: levels }, (_, level) => {
    const inner = level === 0 ? "x" : `*a${level - 1}`;
    return `a${level}: &a${level} [${Array(width).fill(inner).join(", ")}]`;
  }).join("\n");
}

function broken(bytes: Buffer, draw: Draw): Uint8Array {
  const copy = Buffer.from(bytes);
  for (let times = draw.upTo(3); times >= 0; times--) {
    if (copy.length > 0) copy[draw.upTo(copy.length - 1)] = draw.upTo(255);
  }
  return draw.chance(0.3) ? copy.subarray(0, draw.upTo(copy.length)) : copy;
}

/** Values that no JSON has, or that bite whoever looks at them. */
const strangeValues: readonly (() => unknown)[] = [
  () => 10n ** 40n,
  () => 7n,
  () => undefined,
  () => Symbol("s"),
  () => () => 1,
  () => Number.NaN,
  () => Number.NEGATIVE_INFINITY,
  () => -0,
  () => new Date(0),
  () => new Date(Number.NaN),
  () => /x/g,
  () => new Map([[1, 2]]),
  () => Buffer.from("bytes"),
  () => new Array(5),
  () => Object.create(null) as unknown,
  () => JSON.parse('{"__proto__": {"limit": 1}}') as unknown,
  () => "\u0000",
  () => "x".repeat(3_000_000),
  () => nested(20_000, (inner) => [inner]),
  () => {
    const cycle: Record<string, unknown> = { engine: "fake" };
    cycle.self = cycle;
    return cycle;
  },
  () => Object.defineProperty({}, "path", { enumerable: true, get: throwing }),
  () => new Proxy({}, { ownKeys: throwing }),
  () => new Proxy({}, { get: throwing, has: throwing }),
  () => ({ toJSON: throwing }),
  () => ({ _zod: { def: null } }),
];

function throwing(): never {
  throw new Error("a trap");
}

const keys = ["input", "model", "prompt", "output", "env", "limit", "workers", "generation"];

/** Puts a strange value somewhere into a job. */
function spoil(job: Job, draw: Draw): void {
  const key = draw.one([...keys, "constructor", "toString", "__proto__", "dataset", "nonsense"]);
  const value = draw.one(strangeValues)();
  const inner = Object.getOwnPropertyDescriptor(job, key)?.value as unknown;
  const isInside = draw.chance(0.5) && typeof inner === "object" && inner !== null;
  const holder = isInside ? (inner as Job) : job;
  const name = isInside ? draw.one(["path", "engine", "options", "capacity", "schema"]) : key;
  try {
    Object.defineProperty(holder, name, {
      value,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  } catch {
    // A proxy of an earlier turn.
  }
}
