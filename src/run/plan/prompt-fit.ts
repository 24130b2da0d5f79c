import type { InputFile } from "../../data/inputs.ts";
import type { OpenFile } from "../../data/open-files.ts";
import type { InputRow } from "../../data/row.ts";
import { readRows, scanSlices } from "../../data/slices.ts";
import { describeEngine } from "../../engines/registry.ts";
import { limits } from "../../foundation/limits.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import { FitWatch } from "../execute/fit-watch.ts";
import { firstStagePrompts } from "../execute/row-model.ts";
import type { JobSpec } from "../job/schema.ts";
import { isBatchInput } from "../openai-batch/batch-lines.ts";
import { promptSetOf } from "./job-prompts.ts";
import { readOptionsOf } from "./plan.ts";

/** Rows that a prompt is tried on first. */
const fewRowsLookedAt = 8;

/**
 * Refuses, before anything is planned, a prompt that fits none of the first rows: a wrong field
 * name would make every row a dead letter. Each of several datasets is checked.
 *
 * @throws SluiceError `PROMPT_UNFIT`, with the field and the most similar one of the rows.
 */
export async function assertPromptsFit(
  files: readonly InputFile[],
  job: JobSpec,
  openFile: OpenFile,
): Promise<void> {
  const promptSet = renderedPrompts(job);
  if (promptSet === undefined) return;
  for (const dataset of new Set(files.map((file) => file.dataset))) {
    const watch = new FitWatch();
    const own = files.filter((file) => file.dataset === dataset);
    for await (const row of firstOf(own, job, openFile)) {
      const { value, index, file, line } = row;
      if (value === undefined) continue;
      try {
        watch.rendered(() => promptSet.requests(value, index, dataset), { value, file, line });
        break;
      } catch {
        // Others may fit.
        if (watch.isUnfit) break;
      }
    }
    watch.assertFit();
  }
}

/** The prompts for rows of the input; undefined if there are none. */
function renderedPrompts(job: JobSpec): PromptSet | undefined {
  if (job.model.engine === "pipeline") return firstStagePrompts(job);
  if (isBatchInput(job)) return undefined;
  const isAsked = [job.dataset, job.prompt, job.prompts].some((each) => each !== undefined);
  return isAsked || !describeEngine(job.model).takesRows ? promptSetOf(job, 0) : undefined;
}

/** The first rows; almost always the very first one is enough. */
async function* firstOf(
  files: readonly InputFile[],
  job: JobSpec,
  openFile: OpenFile,
): AsyncGenerator<InputRow> {
  const reading = { ...readOptionsOf(job), parse: true };
  let seen = 0;
  for (const most of [fewRowsLookedAt, limits.maxRowsLookedAt]) {
    const limit = Math.min(most, job.limit ?? Number.POSITIVE_INFINITY);
    const cut = { ...reading, rowsPerTask: limit, limit, openFile };
    for await (const { slices, firstRow } of scanSlices(files, cut)) {
      for await (const rows of readRows(slices, firstRow, openFile, reading)) {
        for (const row of rows) if (row.index >= seen) yield row;
      }
    }
    seen = limit;
  }
}
