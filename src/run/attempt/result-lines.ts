import type { InputRow } from "../../data/row.ts";
import { spliceField } from "../../data/splice.ts";
import { describeEngine } from "../../engines/registry.ts";
import type { ServerFault } from "../../foundation/errors.ts";
import { parseMessage, WrittenNumber, withoutSpecials } from "../../foundation/exact-json.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { elementTexts, memberTexts } from "../../foundation/json-members.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import { BatchLines, resultsHoldFailed, writesBatchLines } from "../openai-batch/batch-lines.ts";
import { publishedForm } from "../output/published-form.ts";
import type { Task } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import type { JournalLine, RequestRecord } from "./journal-line.ts";
import type { RequestCounts } from "./request-counts.ts";

/** A failed row, as it is written for people and for `sluice retry`. */
export interface DeadLetter {
  /** The row, or the text that could not be read as a row. */
  row: unknown;
  /** Its bytes in base64, if they are not UTF-8: `row` then has U+FFFD in their place. */
  rowBase64?: string;
  index: number;
  file: string;
  line: number;
  id: string | number | null;
  dataset?: string;
  code: string;
  message: string;
  /** What to do, if it is more than what docs/errors.md says of the code. */
  hint?: string;
  /** Field of the row or request at fault, dotted. */
  field?: string;
  /** What the server answered, if it answered with an error. */
  server?: ServerFault;
  attempts: number;
  /** Requests of the row, and those with an answer; absent = one without an answer. */
  requests?: RequestCounts;
  /** Answers that the row already has, in the shape of `output.field`. */
  partial?: unknown;
  /** Text of the last answer, if the row failed because its form was wrong. */
  lastAnswer?: string;
}

const datasetFieldJson = '"dataset"';

/** Makes lines of results and dead letters from rows and their journal lines. */
export class ResultLines {
  /** True if lines need the values of their rows, not only their text. */
  readonly needValues: boolean;
  readonly #output: RunContext["plan"]["job"]["output"];
  readonly #fieldJson: string;
  readonly #batchLines: BatchLines | undefined;
  readonly #resultsHoldFailed: boolean;
  /** Other programs read the lines, and JSON has no NaN. */
  readonly #isPublished: boolean;
  /** Answers are lists of rows, which replace the row. */
  readonly givesRows: boolean;
  /** The id field of each input file that has one. */
  readonly #idFields: ReadonlyMap<string, string> | undefined;

  constructor({ plan }: RunContext, { slices }: Task) {
    this.#output = plan.job.output;
    this.#fieldJson = JSON.stringify(plan.job.output.field);
    this.#batchLines = writesBatchLines(plan.job) ? new BatchLines(plan) : undefined;
    this.#resultsHoldFailed = resultsHoldFailed(plan.job);
    this.#isPublished = publishedForm(plan).isLines;
    this.givesRows = describeEngine(plan.job.model).givesRows === true;
    const fields = new Map<string, string>();
    for (const { file, id } of slices) if (id !== undefined) fields.set(file, id);
    this.#idFields = fields.size === 0 ? undefined : fields;
    this.needValues = fields.size > 0 || this.#batchLines !== undefined;
  }

  /** True if the job names an id field for some of the rows. */
  get haveIds(): boolean {
    return this.#idFields !== undefined;
  }

  /**
   * The row's line; for a row that became rows, all their lines.
   *
   * @param text the answer's JSON; if the job includes more beside it, its journal line.
   */
  answered(row: InputRow, text: string): string {
    const { index, value, dataset } = row;
    if (this.givesRows) return elementTexts(text).join("\n");
    if (this.#batchLines) {
      return this.#batchLines.answered({ index, row: value, id: this.idOf(row) }, text);
    }
    const line = this.#withAnswer(row, text);
    if (dataset === undefined) return line;
    return spliceField(line, datasetFieldJson, JSON.stringify(dataset));
  }

  /** Lines as they are written: many at once, because nearly none has anything to replace. */
  written(lines: string): string {
    return this.#isPublished ? withoutSpecials(lines) : lines;
  }

  deadLetter(row: InputRow, line: Extract<JournalLine, { outcome: "failed" }>): string {
    const { rawBase64: rowBase64, index, dataset } = row;
    const { attempts, partial, lastAnswer } = line;
    const facts: Omit<DeadLetter, "row"> = {
      ...{
        rowBase64,
        index,
        file: shownPath(row.file),
        line: row.line,
        id: this.idOf(row),
        dataset,
      },
      ...line.error,
      ...{ attempts, ...requestCountsOf(line), partial, lastAnswer },
    };
    // The row's own text: numbers that JavaScript would round stay as they are. A row that does not
    // fit a schema is still JSON.
    const isJson = row.value !== undefined || row.error?.code === "ROW_SCHEMA";
    const rowJson = isJson ? row.raw : JSON.stringify(row.raw);
    return `{"row":${withoutSpecials(rowJson)},${JSON.stringify(facts).slice(1)}`;
  }

  /** The results line of a failed row, if it gets one. */
  failed(deadLetter: string): string | undefined {
    return this.#resultsHoldFailed ? this.#batchLines!.failed(deadLetter) : undefined;
  }

  idOf(row: InputRow): string | number | null {
    const field = this.#idFields?.get(row.file);
    const id = field === undefined ? undefined : row.value?.[field];
    if (typeof id === "number" && !Number.isSafeInteger(id)) return idText(row.raw, field!);
    return typeof id === "string" || typeof id === "number" ? id : null;
  }

  #withAnswer({ raw, value }: InputRow, text: string): string {
    const { include, field } = this.#output;
    if (include.length === 0) {
      const hasField = value === undefined ? undefined : Object.hasOwn(value, field);
      return spliceField(raw, this.#fieldJson, text, hasField);
    }
    const line = parseMessage(text) as Extract<JournalLine, { outcome: "answered" }>;
    const withAnswer = spliceField(raw, this.#fieldJson, JSON.stringify(line.answer));
    const metadata = line.requests.map((request) => metadataOf(request, include));
    return spliceField(withAnswer, JSON.stringify(`${field}Metadata`), JSON.stringify(metadata));
  }
}

function requestCountsOf({
  planned = 1,
  requests,
}: Extract<JournalLine, { outcome: "failed" }>): Pick<DeadLetter, "requests"> {
  if (planned === 1 && requests.length === 0) return {};
  const reused = requests.filter((request) => request.reused).length;
  return { requests: { planned, answered: requests.length, ...(reused > 0 && { reused }) } };
}

/** An id with more digits than a number can hold. */
function idText(raw: string, field: string): number {
  return new WrittenNumber(memberTexts(raw).get(field)!) as unknown as number;
}

type Included = RunContext["plan"]["job"]["output"]["include"];

function metadataOf(request: RequestRecord, include: Included): JsonObject {
  const { promptTokens, cachedTokens = 0, tokens, finishReason, seconds, attempts } = request;
  const { logprobs = [], spans = [{}] } = request;
  const facts = {
    usage: {
      promptTokens,
      cachedTokens,
      completionTokens: tokens.reduce((a, b) => a + b, 0),
      ...(tokens.length > 1 ? { answerTokens: tokens } : {}),
    },
    finishReason,
    seconds,
    attempts,
    // Several answers have a list each, like the answers themselves.
    logprobs: (logprobs.length === 1 ? logprobs[0]! : logprobs) as unknown as Json,
    spans: (spans.length === 1 ? spans[0]! : spans) as unknown as Json,
  };
  return Object.fromEntries(include.map((name) => [name, facts[name]]));
}
