import { endingOf, needsColumns, type ResultFormat } from "../../data/formats/result-format.ts";
import type { Plan } from "../plan/plan.ts";
import { publishesLines, resultFormat } from "./output-form.ts";

export interface PublishedForm {
  format: ResultFormat;
  /** File extension, such as `.csv.gz`. */
  ending: string;
  /**
   * True if the attempts' own lines are published. Otherwise these stay beside the files made from
   * them.
   */
  isLines: boolean;
  /** True if each task has its own part among the results. */
  isParts: boolean;
  /** True if each file has the columns of all rows. */
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
