import type { Hash } from "node:crypto";
import type { Storage, Writer } from "../../data/storage/storage.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import { eachIndex, parseIndexSet } from "../../foundation/index-set.ts";
import type { Commit } from "../attempt/commit.ts";
import type { DeadLetter } from "../attempt/result-lines.ts";
import { readLines } from "../lines.ts";
import type { PlannedFile, Task } from "../plan.ts";

/** One task of the run before a retry, and what the retry made of it. */
export interface MergeSource {
  /** The task as the first generation planned it. */
  task: Task;
  /** Its results as they stand, in input order. */
  results: AsyncIterator<string>;
  deadLetters: PlannedFile | null;
  /** The retry's task and commit; absent where no row of it was asked again. */
  retried?: { task: Task; commit: Commit };
  /** Results have lines of failed rows too, beside their dead letters. */
  resultsHoldFailed: boolean;
}

/** A task after a retry. */
export interface MergedTask {
  results: number;
  failed: number;
  /** Rows that failed before and are answered now. */
  recovered: number;
  deadLetters: PlannedFile | null;
}

/**
 * Writes a task anew: a row that the retry answered takes the place of what stood for it, any other
 * stays as it was. A row that failed again keeps one dead letter, the newer.
 */
export async function mergeTask(
  storage: Storage,
  source: MergeSource,
  results: Pick<LineSink, "add">,
  deadLettersPath: string,
): Promise<MergedTask> {
  const { task, retried, resultsHoldFailed } = source;
  const before = await deadLettersOf(storage, source.deadLetters);
  const again = await deadLettersOf(storage, retried?.commit.deadLetters ?? null);
  const asked = new Set(retried ? eachIndex(parseIndexSet(retried.task.only!)) : []);
  const answers = retried ? readLines(storage, retried.commit.part.path) : undefined;
  const merged = { results: 0, failed: 0, recovered: 0 };
  const letters: string[] = [];
  for (const index of plannedRows(task)) {
    const wasAnswered = !before.has(index);
    const isAnswered = asked.has(index) && !again.has(index);
    const hadLine = wasAnswered || resultsHoldFailed;
    const hasLine = isAnswered || (asked.has(index) && resultsHoldFailed);
    const old: string | undefined = hadLine ? (await source.results.next()).value : undefined;
    const renewed: string | undefined = hasLine ? (await answers!.next()).value : undefined;
    if (isAnswered) {
      await results.add(renewed!);
      merged.results++;
      if (!wasAnswered) merged.recovered++;
    } else if (wasAnswered) {
      await results.add(old!);
      merged.results++;
    } else {
      const line = again.get(index) ?? before.get(index)!;
      letters.push(line);
      merged.failed++;
      if (!resultsHoldFailed) continue;
      await results.add(renewed ?? old!);
      merged.results++;
    }
  }
  // Nobody reads on to the file's end, which would close it.
  await answers?.return(undefined);
  const deadLetters =
    letters.length === 0 ? null : await writeLines(storage, deadLettersPath, letters);
  return { ...merged, deadLetters };
}

function* plannedRows({ firstRow, rows, only }: Task): Generator<number> {
  if (only !== undefined) yield* eachIndex(parseIndexSet(only));
  else for (let index = firstRow; index < firstRow + rows; index++) yield index;
}

async function deadLettersOf(
  storage: Storage,
  file: PlannedFile | null,
): Promise<Map<number, string>> {
  const letters = new Map<number, string>();
  if (!file) return letters;
  for await (const line of readLines(storage, file.path)) {
    letters.set((JSON.parse(line) as DeadLetter).index, line);
  }
  return letters;
}

async function writeLines(storage: Storage, path: string, lines: string[]): Promise<PlannedFile> {
  const sink = await LineSink.open(storage, path);
  for (const line of lines) await sink.add(line);
  return sink.end();
}

const flushChars = 256 * 1024;

/** A file of lines that is hashed while it is written. */
export class LineSink {
  readonly #path: string;
  readonly #writer: Writer;
  readonly #digest: Hash = sha256Stream();
  #text = "";
  #bytes = 0;

  private constructor(path: string, writer: Writer) {
    this.#path = path;
    this.#writer = writer;
  }

  static async open(storage: Storage, path: string): Promise<LineSink> {
    return new LineSink(path, await storage.writer(path));
  }

  async add(line: string): Promise<void> {
    this.#text += `${line}\n`;
    if (this.#text.length >= flushChars) await this.#flush();
  }

  async end(): Promise<PlannedFile> {
    await this.#flush();
    await this.#writer.close();
    return { path: this.#path, sha256: this.#digest.digest("hex"), bytes: this.#bytes };
  }

  async abort(): Promise<void> {
    await this.#writer.abort();
  }

  async #flush(): Promise<void> {
    const data = Buffer.from(this.#text);
    this.#text = "";
    this.#bytes += data.length;
    this.#digest.update(data);
    if (data.length > 0) await this.#writer.write(data);
  }
}
