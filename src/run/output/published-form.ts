import { endingOf, needsColumns, type ResultFormat } from "../../data/formats/result-format.ts";
import type { Plan } from "../plan/plan.ts";
import { publishesLines, resultFormat } from "./output-form.ts";

/** In which form the results of a run are published. */
export interface PublishedForm {
  format: ResultFormat;
  /** Ending of the files, as `.csv.gz`. */
  ending: string;
  /**
   * True where the attempts' own lines are what is published. Otherwise these stay beside what is
   * made of them.
   */
  isLines: boolean;
  /** True where each task has a part of its own among the results. */
  isParts: boolean;
  /** True where the columns of all rows go into each file. */
  needsColumns: boolean;
}

/** The form of a plan's results. */
export function publishedForm({
  job,
  mergedFile,
  outputs,
}: Pick<Plan, "job" | "mergedFile" | "outputs">): PublishedForm {
  const format = resultFormat(job.output);
  return {
    format,
    ending: endingOf(format),
    isLines: publishesLines(job.output, outputs !== undefined),
    isParts: mergedFile === null && outputs === undefined,
    needsColumns: outputs?.needsColumns ?? needsColumns(format),
  };
}
