import { type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";

/**
 * What becomes of a row when it is asked: `refused` until the server is mended, `flaky` and `busy`
 * the first time alone, `cut` at the token limit. A `broken` line is half a row, and one that is
 * `lacking` has no text, until they are mended in the file.
 */
export type Fate = "answered" | "refused" | "flaky" | "busy" | "cut" | "broken" | "lacking";

/** A row as it is drawn: a number is its digits. */
export interface DrawnRow {
  id: string;
  text: string;
  number: string;
  fate: Fate;
}

/** What is done with the run, one after another. */
export type Step =
  | { kind: "run" | "again" | "retry" | "mend-server" | "mend-rows" | "clean" }
  | { kind: "extend"; rows: DrawnRow[] };

/** An end that comes from outside, once so many rows have been asked. */
export interface Kill {
  afterAsked: number;
  signal: "SIGKILL" | "SIGINT" | "SIGTERM";
  whom: "process" | "group";
}

/** A whole job, and all that happens to it. */
export interface DrawnJob {
  seed: number;
  engine: "openai" | "command" | "predictor" | "fake";
  input: "jsonl" | "json" | "csv" | "parquet";
  output: string;
  /** Whether a text of the same words is asked once: the temperature and the seed of the job. */
  sampling: { temperature: number; seed?: number };
  prefix: string;
  rowsPerTask: number;
  workers: number;
  rows: DrawnRow[];
  kills: Kill[];
  steps: Step[];
}

const outputs = [
  "out",
  "out",
  "results.jsonl",
  "results.csv.gz",
  "results.parquet",
  "results.json",
];
const numbers = ["9007199254740993", "-9007199254740995", "0", "17", "18014398509481985"];
const exactNumbers = [...numbers, "1.0", "-0", "0.10", "1e400", "123456789012345678901234567890"];
const texts = [
  "plain",
  'with "quotes" and \\ a backslash',
  "ends with a space ",
  "a comma, a semicolon; a tab\tand {{ braces }}",
  "two\nlines",
  "line\u2028separator",
  "emoji 🫖 and é",
  "",
];

/** Draws a job: the same one for the same seed. */
export function drawJob(seed: number): DrawnJob {
  const random = seededRandom(seed);
  const one = <T>(values: readonly T[]): T => values[randomInteger(random, values.length)]!;
  const engine = one(["openai", "openai", "command", "predictor", "fake"] as const);
  const input = one(["jsonl", "jsonl", "json", "csv", "parquet"] as const);
  const output = one(outputs);
  const context = { random, engine, input, output };
  const rows = drawRows(context, 5 + randomInteger(random, 36), 0);
  return {
    seed,
    engine,
    input,
    output,
    sampling: one([{ temperature: 0 }, { temperature: 1 }, { temperature: 1, seed: 5 }]),
    prefix: one(["Say ", "“Ünïcode” ", ""]),
    rowsPerTask: 1 + randomInteger(random, 15),
    workers: 1 + randomInteger(random, 2),
    rows,
    kills: Array.from({ length: Math.max(0, randomInteger(random, 5) - 2) }, () => ({
      afterAsked: 1 + randomInteger(random, rows.length),
      signal: one(["SIGKILL", "SIGKILL", "SIGINT", "SIGTERM"] as const),
      whom: one(["process", "group"] as const),
    })),
    steps: drawSteps(context, rows.length),
  };
}

interface Context extends Pick<DrawnJob, "engine" | "input" | "output"> {
  random: Random;
}

function drawRows({ random, engine, input, output }: Context, count: number, first: number) {
  const isText = input === "jsonl" || input === "json";
  // A column of a table has one type.
  const ownNumbers = isText && /out|json/.test(output) ? exactNumbers : numbers;
  const fates: Fate[] = ["refused", "cut"];
  if (engine === "openai") fates.push("flaky", "busy");
  if (isText) fates.push("lacking");
  if (input === "jsonl") fates.push("broken");
  const rows: DrawnRow[] = [];
  for (let row = first; row < first + count; row++) {
    const [chance, copied] = [random.next(), rows.at(-1)];
    if (copied && chance < 0.2) rows.push({ ...copied, id: `r${row}` });
    else {
      const pick = <T>(values: readonly T[]) => values[randomInteger(random, values.length)]!;
      rows.push({
        id: `r${row}`,
        text: `${pick(texts)}${chance < 0.5 ? row : ""}`,
        number: pick(ownNumbers),
        fate: chance > 0.75 ? pick(fates) : "answered",
      });
    }
  }
  return rows;
}

/** A run, and some of what a person does afterwards, in an order that makes sense. */
function drawSteps(context: Context, count: number): Step[] {
  const { random, input } = context;
  const steps: Step[] = [{ kind: "run" }];
  const maybe = (step: Step) => random.next() < 0.5 && steps.push(step);
  maybe({ kind: "again" });
  if (random.next() < 0.3) steps.push({ kind: "retry" });
  maybe({ kind: "mend-server" });
  if (input === "jsonl") {
    maybe({ kind: "mend-rows" });
    maybe({ kind: "extend", rows: drawRows(context, 1 + randomInteger(random, 5), count) });
    maybe({ kind: "mend-server" });
  }
  maybe({ kind: "clean" });
  maybe({ kind: "again" });
  return steps;
}
