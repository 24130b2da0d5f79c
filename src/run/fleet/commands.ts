import { looksSecret } from "../../engines/secrets.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { nameUuid } from "../../foundation/ids.ts";
import { indexesIn } from "../../foundation/index-set.ts";
import { isJsonObject, type Json } from "../../foundation/json.ts";
import { oneOf } from "../../foundation/suggest.ts";

/** One command of a fleet, as a line of its file. What is absent is taken from the fleet. */
export interface CommandLine {
  /** Index of the task: a number, or a name. */
  idx: string;
  cmds?: string[];
  args?: string[];
  env?: Record<string, string>;
}

export interface ReadCommand {
  command: CommandLine;
  place?: Place;
}

interface Place {
  file: string;
  line: number;
}

/** A line of the normalised file, which is a row of the run. */
export interface CommandRow extends CommandLine {
  /** A UUID that follows from the fleet's id and the index. */
  id: string;
}

/** What is known of all tasks. */
export interface TaskRange {
  count: number;
  /** Lowest and highest index that is a number, or place among the rows. */
  min: number;
  max: number;
}

const secretDetail =
  "looks like a secret, and lines are stored: pass it by --env NAME, which all tasks get";

const fields = ["cmds", "args", "env", "idx"] as const;

/**
 * The commands of a text of JSON lines. Empty lines are skipped.
 *
 * @param file as messages name it.
 * @param firstIndex the index of the first line, where lines do not have their own.
 * @throws SluiceError `COMMAND_INVALID`, with file, line and field.
 * @example
 * const [read] = commandLines('{"cmds": ["python", "app.py"]}', "commands.jsonl");
 * read.command.idx; // "0"
 */
export function* commandLines(text: string, file: string, firstIndex = 0): Generator<ReadCommand> {
  let index = firstIndex;
  for (const [at, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const place = { file, line: at + 1 };
    yield { command: commandOf(parsed(line, place), place, String(index)), place };
    index++;
  }
}

function parsed(line: string, place: Place): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new SluiceError("COMMAND_INVALID", (cause as Error).message, { ...place, cause });
  }
}

function commandOf(value: unknown, place: Place, index: string): CommandLine {
  const invalid = (field: string, detail: string) =>
    new SluiceError("COMMAND_INVALID", detail, { ...place, ...(field !== "" && { field }) });
  if (!isJsonObject(value as Json)) throw invalid("", 'a line is an object, as {"cmds": […]}');
  const { cmds, args, env, idx, ...others } = value as Record<string, unknown>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw invalid(unknown, oneOf(unknown, fields));
  for (const [field, list] of Object.entries({ cmds, args })) {
    const isTexts = Array.isArray(list) && list.every((each) => typeof each === "string");
    if (list !== undefined && !isTexts) throw invalid(field, "must be a list of texts");
    if (isTexts && list.some((each) => each.includes("\0"))) throw invalid(field, "holds a NUL");
  }
  if (cmds !== undefined && (cmds as string[]).length === 0) throw invalid("cmds", "is empty");
  if (env !== undefined && !isVariables(env)) throw invalid("env", "must be an object of texts");
  const secret = Object.entries((env ?? {}) as Record<string, string>).find((each) =>
    looksSecret(...each),
  );
  if (secret) throw invalid(`env.${secret[0]}`, secretDetail);
  const isNumber = Number.isSafeInteger(idx) && (idx as number) >= 0;
  const isName = typeof idx === "string" && /^[^\s/]{1,200}$/.test(idx);
  if (idx !== undefined && !isNumber && !isName) {
    throw invalid("idx", "must be a number from 0, or a text without spaces and slashes");
  }
  return { idx: idx === undefined ? index : String(idx), cmds, args, env } as CommandLine;
}

function isVariables(env: unknown): boolean {
  if (!isJsonObject(env as Json)) return false;
  return Object.entries(env as object).every(
    ([name, text]) => typeof text === "string" && /^[^\s=\0]+$/.test(name) && !text.includes("\0"),
  );
}

/** Commands by their number alone: `--count`. */
export function* countedCommands(count: number, firstIndex = 0): Generator<ReadCommand> {
  for (let index = firstIndex; index < firstIndex + count; index++) {
    yield { command: { idx: String(index) } };
  }
}

/** Commands by an index set, such as `2-5,7`: `--indexes`. */
export function* indexedCommands(text: string): Generator<ReadCommand> {
  for (const index of indexesIn(text)) yield { command: { idx: String(index) } };
}

/**
 * The rows of commands, with ids.
 *
 * @param taken indexes that the fleet has already; new ones are added.
 * @throws SluiceError `COMMAND_INVALID` for an index that another task has.
 */
export function* commandRows(
  commands: Iterable<ReadCommand>,
  fleetId: string,
  taken: Set<string>,
): Generator<CommandRow> {
  for (const { command, place } of commands) {
    const { idx } = command;
    if (taken.has(idx)) {
      const detail = `another task has the index ${idx}`;
      throw new SluiceError("COMMAND_INVALID", detail, { ...place, field: "idx" });
    }
    taken.add(idx);
    yield { ...command, id: nameUuid(fleetId, idx) };
  }
}

/** What programs are told of all tasks. */
export function rangeOf(indexes: Iterable<string>): TaskRange {
  let count = 0;
  let min = Number.POSITIVE_INFINITY;
  let max = 0;
  for (const index of indexes) {
    // A longer one is a name: no number of JSON is as exact.
    const number = /^\d{1,15}$/.test(index) ? Number(index) : count;
    count++;
    min = Math.min(min, number);
    max = Math.max(max, number);
  }
  return { count, min: count === 0 ? 0 : min, max };
}
