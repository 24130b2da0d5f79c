import { type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";

/** What a reply answers. */
export type AskedFor = "chat" | "calls" | "completion" | "embedding" | "listing" | "file";

/** A reply that was as it should be once. */
export interface HostileReply {
  askedFor: AskedFor;
  mutation: string;
  /** What goes over the connection, in the pieces in which it goes. */
  pieces: Buffer[];
  /** The connection stays open behind it. */
  staysOpen: boolean;
  /** True where nothing was changed that a client may be misled by. */
  isSound: boolean;
  /** The content that a whole one has. */
  body: Buffer;
}

export const wholeText = "größer – 大";
export const wholeVector = [0.25, -1, 3];

export const wholeCalls = [{ id: "a", function: { name: "größer", arguments: "{}" } }];

const wholeBodies: Readonly<Record<AskedFor, unknown>> = {
  chat: {
    choices: [
      {
        ...{ index: 0, message: { content: wholeText }, finish_reason: "stop" },
        logprobs: { content: [{ token: "a", logprob: -1, top_logprobs: [{ token: "b" }] }] },
      },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 2 },
  },
  calls: { choices: [{ index: 0, message: { content: null, tool_calls: wholeCalls } }] },
  completion: { choices: [{ index: 0, text: wholeText, finish_reason: "length" }] },
  embedding: { data: [{ index: 0, embedding: wholeVector }], usage: { prompt_tokens: 3 } },
  listing: [{ type: "file", path: "a.jsonl", size: 9, oid: "a".repeat(40) }],
  file: "größer",
};

const deep = "[".repeat(20_000) + "]".repeat(20_000);
/** JSON in the place of other JSON. */
const strangers = [
  ...["null", "-1", "1e400", "0.5", '""', '"x"', "[]", "{}", "[[]]", "true", '"\\ud800"', deep],
  ...[
    '{"__proto__":1}',
    '{"length":-1}',
    '{"toString":1,"toJSON":2,"then":3}',
    `"${"a".repeat(70_000)}"`,
    "[null]",
    '["x"]',
  ],
];
const strangeFields = [
  ...["content-length: 7", "content-length: -1", "content-length: 99999999999999999999"],
  ...["transfer-encoding: chunked", "content-encoding: gzip", "content-encoding: what"],
  ...["retry-after: 99999999", "retry-after: -5", "retry-after: Infinity", "retry-after-ms: 1e99"],
  ...["x-ratelimit-limit-requests: 1", "x-ratelimit-remaining-requests: 0"],
  ...["x-ratelimit-reset-requests: 6d", "content-range: bytes 9-3/x", "content-range: bytes 0-0/9"],
  ...["location: /x", "location: http://[", 'link: <x>; rel="next"', 'link: <>; rel="next"'],
  ...[
    "upgrade: h2c",
    "connection: close",
    "trailer: x",
    `x: ${"y".repeat(20_000)}`,
    ": x",
    "x\0y: z",
  ],
];
const statuses = [100, 101, 103, 200, 201, 204, 206, 301, 304, 307, 400, 401, 404, 408, 413, 416];
const moreStatuses = [418, 425, 429, 500, 502, 503, 507, 599, 600, 999, 0, -1];

/** The reply of a seed: the same for the same seed. */
export function hostileReply(seed: number): HostileReply {
  const random = seededRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[randomInteger(random, list.length)]!;
  const askedFor = pick(Object.keys(wholeBodies) as AskedFor[]);
  const value = wholeBodies[askedFor];
  const body = Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
  const whole = { status: 200, fields: ["content-type: application/json"], body, before: "" };
  const mutation = random.next() < 0.3 ? "stranger" : pick(Object.keys(mutations));
  const changed = { ...whole, ...mutations[mutation]!(whole, random) };
  const hasLength = changed.fields.some((field) => /^(content-length|transfer-enc)/.test(field));
  const length = hasLength ? [] : [`content-length: ${changed.body.length}`];
  const head = [`HTTP/1.1 ${changed.status} OK`, ...changed.fields, ...length].join("\r\n");
  let bytes = Buffer.concat([Buffer.from(`${changed.before}${head}\r\n\r\n`), changed.body]);
  if (mutation === "cut") bytes = bytes.subarray(0, randomInteger(random, bytes.length));
  if (mutation === "flip") {
    const at = randomInteger(random, bytes.length);
    bytes[at] = bytes[at]! ^ (1 << randomInteger(random, 8));
  }
  if (mutation === "noise") bytes = Buffer.from(bytes.map(() => randomInteger(random, 256)));
  const isSound = ["none", "pieces", "interim"].includes(mutation);
  const cuts = mutation === "pieces" ? [5, 30, bytes.length - 2] : [];
  const pieces = [...cuts, bytes.length].map((end, at) => bytes.subarray(cuts[at - 1] ?? 0, end));
  // Readers of files wait for a minute, engines for as long as they are told.
  const isOfEngine = !["listing", "file"].includes(askedFor);
  const staysOpen = isSound || (isOfEngine && random.next() < 0.1);
  return { askedFor, mutation, pieces, staysOpen, isSound, body: changed.body };
}

interface Parts {
  status: number;
  fields: string[];
  body: Buffer;
  before: string;
}

const mutations: Readonly<Record<string, (parts: Parts, random: Random) => Partial<Parts>>> = {
  none: () => ({}),
  pieces: () => ({}),
  interim: () => ({ before: "HTTP/1.1 100 Continue\r\nserver: x\r\n\r\n".repeat(2) }),
  cut: () => ({}),
  flip: () => ({}),
  noise: () => ({}),
  status: (_, random) => {
    const all = [...statuses, ...moreStatuses];
    return { status: all[randomInteger(random, all.length)]! };
  },
  field: ({ fields }, random) => {
    const strange = strangeFields[randomInteger(random, strangeFields.length)]!;
    const status = random.next() < 0.4 ? [429, 503, 302, 206][randomInteger(random, 4)]! : 200;
    return { status, fields: [...fields, strange] };
  },
  stranger: ({ body }, random) => ({ body: withStranger(body.toString(), random) }),
  strangers: ({ body }, random) => ({
    body: withStranger(withStranger(body.toString(), random).toString(), random),
  }),
  latin1: ({ body }) => ({ body: Buffer.from(body.toString(), "latin1") }),
  utf16: ({ body }) => ({ body: Buffer.from(`\uFEFF${body}`, "utf16le") }),
  twice: ({ body }) => ({ body: Buffer.concat([body, body]) }),
  empty: () => ({ body: Buffer.alloc(0) }),
  large: () => ({ body: Buffer.alloc(1_000_000, "[") }),
};

/** One value of a JSON text, or one name, is another one. */
function withStranger(text: string, random: Random): Buffer {
  // Those that lie in one another too: an object and each of its values.
  const values = [...text.matchAll(/(?=("[^"]*"|-?[\d.]+|\[[^[\]]*\]|\{[^{}]*\}))/g)];
  const strange = strangers[randomInteger(random, strangers.length)]!;
  if (values.length === 0) return Buffer.from(strange);
  const { 1: found = "", index } = values[randomInteger(random, values.length)]!;
  return Buffer.from(text.slice(0, index) + strange + text.slice(index + found.length));
}
