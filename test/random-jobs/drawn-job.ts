import { type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";

/**
 * What becomes of a row when it is asked. Until the server is mended: `refused`, `cut` at its limit
 * of tokens, `deadly` to the program. The first time alone: `flaky`, `busy`. Until the file is
 * mended: a `broken` line is half a row, and one that is `lacking` has no text.
 */
export type Fate =
  | "answered"
  | "refused"
  | "deadly"
  | "flaky"
  | "busy"
  | "cut"
  | "broken"
  | "lacking";

/** A row as it is drawn: a number is its digits. */
export interface DrawnRow {
  id: string;
  text: string;
  number: string;
  fate: Fate;
}

/** What is done with the run, one after another, and the ends that come in the middle. */
export interface Step {
  kind:
    | "run"
    | "again"
    | "retry"
    | "retry-elsewhere"
    | "mend-server"
    | "ask-cut"
    | "mend-rows"
    | "extend"
    | "clean";
  kills: Kill[];
  /** The rows that an extension appends. */
  rows: DrawnRow[];
}

/** An end that comes from outside, once so many rows have been asked. */
export interface Kill {
  afterAsked: number;
  signal: "SIGKILL" | "SIGINT" | "SIGTERM";
  whom: "process" | "group";
  /** By what it goes on: `sluice resume`, or the same command. */
  isResumed: boolean;
}

/** A whole job, and all that happens to it. */
export interface DrawnJob {
  seed: number;
  engine: "openai" | "command" | "predictor" | "fake";
  input: "jsonl" | "json" | "csv" | "parquet";
  output: string;
  /** Whether a text of the same words is asked once: the temperature and the seed of the job. */
  sampling: { temperature: number; seed?: number };
  /** Beginnings of the prompts of each row; of several by their names. */
  prefixes: Record<string, string>;
  rowsPerTask: number;
  workers: number;
  rows: DrawnRow[];
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
    prefixes: {
      first: one(["Say ", "“Ünïcode” ", ""]),
      ...(random.next() < 0.25 && { second: "Shout " }),
    },
    rowsPerTask: 1 + randomInteger(random, 15),
    workers: 1 + randomInteger(random, 2),
    rows,
    steps: drawSteps(context, rows.length),
  };
}

interface Context extends Pick<DrawnJob, "engine" | "input" | "output"> {
  random: Random;
}

function drawRows({ random, engine, input, output }: Context, count: number, first: number) {
  const isText = input === "jsonl" || input === "json";
  // A column of a table has one type.
  const ownNumbers = isText && /out|json|csv/.test(output) ? exactNumbers : numbers;
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
  // One alone: a program that dies again and again is started after ever longer waits.
  const isDeadly = engine === "command" && first === 0 && random.next() < 0.2;
  if (isDeadly) rows[randomInteger(random, count)]!.fate = "deadly";
  return rows;
}

/** A run, and some of what a person does afterwards, in an order that makes sense. */
function drawSteps(context: Context, count: number): Step[] {
  const { random, input } = context;
  const steps: Step[] = [];
  const add = (kind: Step["kind"], chance: number) => {
    if (random.next() >= chance) return;
    const rows = kind === "extend" ? drawRows(context, 1 + randomInteger(random, 5), count) : [];
    const kills = kind === "again" || kind === "clean" ? [] : drawKills(random, count);
    steps.push({ kind, kills, rows });
  };
  add("run", 1);
  add("again", 0.5);
  add("retry", 0.2);
  add("retry-elsewhere", 0.2);
  add("mend-server", 0.5);
  add("ask-cut", 0.3);
  if (input === "jsonl") {
    add("mend-rows", 0.5);
    add("extend", 0.5);
    add("mend-server", 0.5);
  }
  add("clean", 0.4);
  add("again", 0.4);
  return steps;
}

function drawKills(random: Random, rows: number): Kill[] {
  const signals = ["SIGKILL", "SIGKILL", "SIGINT", "SIGTERM"] as const;
  return Array.from({ length: Math.max(0, randomInteger(random, 5) - 2) }, () => ({
    afterAsked: 1 + randomInteger(random, rows),
    signal: signals[randomInteger(random, signals.length)]!,
    whom: random.next() < 0.5 ? "process" : "group",
    isResumed: random.next() < 0.5,
  }));
}
