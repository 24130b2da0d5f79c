/**
 * The places of a run's files, relative to the run directory. Everything except results starts with
 * `_`, so that readers of data sets accept the directory unchanged.
 */

/** The plan of a run that something belongs to: generation 1 is the run itself, retries follow. */
export interface RunGeneration {
  runId: string;
  /** 1 for the run itself. */
  generation: number;
}

/** Everything of a run except its results. */
export const statePrefix = "_sluice/";
/** The plan, with which a run begins. A run that replaced another has `replacingPlanPath`. */
export const planPath = "_sluice/plan.json";
/** Plans of the runs that replaced the first one of a directory, by their numbers. */
export const plansPrefix = "_sluice/plans/";
/** Where standard input is spooled, named by its content. */
export const stdinPrefix = "_sluice/stdin-";
export const manifestPath = "_manifest.json";
export const successPath = "_SUCCESS";
export const reportPath = "_report.json";
export const partPrefix = "part-";
export const deadLetterPrefix = "_dead-letters/part-";
export const commitPrefix = "_sluice/commits/";
export const coordinatorPrefix = "_sluice/coordinators/";
export const workerPrefix = "_sluice/workers/";
/** Processes that change published files without leading. */
export const menderPrefix = "_sluice/menders/";
/** What joining workers say of the tasks that they process. */
export const claimPrefix = "_sluice/claims/";
export const cancelPrefix = "_sluice/cancel/";
/** Requests that single workers leave. */
const leavePrefix = "_sluice/leave/";
/** What was submitted to a scheduler, in order. */
export const submissionPrefix = "_sluice/submissions/";
export const probePrefix = "_sluice/probe/";
/** Output of programs, for each row and try. */
export const logPrefix = "_sluice/logs/";
/** Which tries of rows gave the results in mounts. */
export const stagedPrefix = "_sluice/staged/";
export const providerBatchesPrefix = "_sluice/provider-batches/";
const sealPrefix = "_sluice/seals/";
/** Manifests under the names of their writers. */
const manifestPrefix = "_sluice/manifests/";
const rowHashesPrefix = "_sluice/row-hashes/";
export const generationPrefix = "_sluice/generations/";
export const outputsPrefix = "_sluice/outputs-";
export const attemptPrefix = "_sluice/attempts/";

/** Digits in the names of parts: enough for the last task, at least five. */
export function partWidth(tasks: number): number {
  return Math.max(5, String(Math.max(0, tasks - 1)).length);
}

/** `part-00007.jsonl`, or with the extension of another format. */
export function partPath(task: number, width: number, ending = ".jsonl"): string {
  return `${partPrefix}${String(task).padStart(width, "0")}${ending}`;
}

/** `_dead-letters/part-00007.jsonl`. */
export function deadLetterPath(task: number, width: number): string {
  return `${deadLetterPrefix}${String(task).padStart(width, "0")}.jsonl`;
}

/** The task of a part or of dead letters; undefined for a file that a run does not name so. */
export function taskOfResult(path: string, width: number, ending: string): number | undefined {
  const [, digits] = /part-(\d+)\./.exec(path) ?? [];
  if (digits === undefined) return undefined;
  const task = Number(digits);
  const isOurs = path === partPath(task, width, ending) || path === deadLetterPath(task, width);
  return isOurs ? task : undefined;
}

/** The one record by which run N of a directory takes the place of the one before. */
export function replacingPlanPath(number: number): string {
  return numbered(plansPrefix, number);
}

/** Records that nothing is left of the runs before run N. */
export function clearedPath(number: number): string {
  return numbered(plansPrefix, number, ".cleared");
}

/** The folder after `_sluice/` in all paths of run N, for N above 1. */
export function stateSuffixOf(number: number): string {
  return `r${number}/`;
}

export function planPathOf(generation: number): string {
  return generation === 1 ? planPath : `${generationPrefix}${generation}/plan.json`;
}

export function manifestPathOf(generation: number): string {
  return generation === 1 ? manifestPath : `_manifest.g${generation}.json`;
}

/** Records of how the generations of a run ended, and their manifests. */
export function sealsPrefix({ runId }: Pick<RunGeneration, "runId">): string {
  return `${sealPrefix}${runId.toLowerCase()}.`;
}

/** The one record that ends a generation: it is created once, so a generation ends in one way. */
export function sealPath(of: RunGeneration): string {
  return numbered(sealsPrefix(of), of.generation);
}

/** Manifests of a run under the names of their writers. */
export function manifestsPrefix({ runId }: Pick<RunGeneration, "runId">): string {
  return `${manifestPrefix}${runId.toLowerCase()}.`;
}

/** One of them; it counts once a seal names it. */
export function writtenManifestPath(of: RunGeneration, writer: string): string {
  return `${manifestsPrefix(of)}g${of.generation}.${writer}.json`;
}

/** Hashes of the rows of a task that a retry read again; named by their digest. */
export function rowHashesPath(sha256: string): string {
  return `${rowHashesPrefix}${sha256.slice(0, 32)}.bin`;
}

/** Tasks of a plan; named by their digest, so that two planners never overwrite each other. */
export function tasksPathOf(generation: number, sha256: string): string {
  const folder = generation === 1 ? "_sluice/" : `${generationPrefix}${generation}/`;
  return `${folder}tasks-${sha256.slice(0, 16)}.jsonl`;
}

/** The one record that makes an attempt's output the task's output. */
export function commitPath(task: number, of: RunGeneration): string {
  const suffix = of.generation === 1 ? "" : `.g${of.generation}`;
  return `${commitPrefix}${task}.${of.runId.toLowerCase()}${suffix}.json`;
}

/** The task of a commit's path, or undefined if it is not a commit of this generation. */
export function taskOfCommit(path: string, of: RunGeneration): number | undefined {
  const task = Number(path.slice(commitPrefix.length).split(".", 1)[0]);
  return Number.isSafeInteger(task) && path === commitPath(task, of) ? task : undefined;
}

export function generationAttemptsPrefix(of: RunGeneration): string {
  return `${attemptPrefix}${of.runId.toLowerCase()}/g${of.generation}/`;
}

export function taskAttemptsPrefix(task: number, of: RunGeneration): string {
  return `${generationAttemptsPrefix(of)}${task}/`;
}

/** Tasks that were begun while another attempt's journal was there. */
export function repeatedTasksPrefix(of: RunGeneration): string {
  return `${attemptPrefix}${of.runId.toLowerCase()}/g${of.generation}-repeated/`;
}

/** Marks a task as one of these. */
export function repeatedTaskPath(task: number, of: RunGeneration): string {
  return `${repeatedTasksPrefix(of)}${task}.json`;
}

/** What the joining workers of a generation say: which tasks they process, and that they live. */
export function claimsPrefix(of: RunGeneration): string {
  return `${claimPrefix}${of.runId.toLowerCase()}.g${of.generation}/`;
}

/** The `number`th claim of a range of tasks that begins or ends with `task`. */
export function claimPath(task: number, number: number, of: RunGeneration): string {
  return `${claimsPrefix(of)}${task}.${number}.json`;
}

/** The task in a claim's path, or undefined if it is not a claim. */
export function taskOfClaim(path: string, of: RunGeneration): number | undefined {
  const match = /^(\d+)\.\d+\.json$/.exec(path.slice(claimsPrefix(of).length));
  return match ? Number(match[1]) : undefined;
}

/** Folder of the heartbeats of joining workers. */
export function claimOwnersPrefix(of: RunGeneration): string {
  return `${claimsPrefix(of)}owners/`;
}

/** The heartbeat of a joining worker. */
export function claimOwnerPath(owner: string, of: RunGeneration): string {
  return `${claimOwnersPrefix(of)}${owner}.json`;
}

export function attemptPaths(task: number, of: RunGeneration, attempt: string) {
  const folder = `${taskAttemptsPrefix(task, of)}${attempt}/`;
  return {
    journal: `${folder}journal.jsonl`,
    part: `${folder}part.jsonl`,
    /** The part in the published format. */
    encoded: (ending: string) => `${folder}part${ending}`,
    /** The same with columns that only other tasks have. */
    widened: (ending: string) => `${folder}part.widened${ending}`,
    columns: `${folder}columns.json`,
    deadLetters: `${folder}dead-letters.jsonl`,
    rowHashes: `${folder}row-hashes.bin`,
    ids: `${folder}ids.bin`,
    cutRows: `${folder}cut-rows.txt`,
    lineCounts: `${folder}line-counts.json`,
    /** A commit for the coordinator, on a store that cannot create once. */
    proposal: `${folder}proposal.json`,
  };
}

/** Files of a retry before they are published; each merging process has its own. */
export function retryPaths(generation: number, merger: string) {
  const folder = `${generationPrefix}${generation}/${merger}/`;
  return {
    part: (task: number) => `${folder}part-${task}.jsonl`,
    /** The part in the published format. */
    encoded: (task: number, ending: string) => `${folder}encoded-${task}${ending}`,
    deadLetters: (task: number) => `${folder}dead-letters-${task}.jsonl`,
    lineCounts: (task: number) => `${folder}line-counts-${task}.json`,
    merged: `${folder}merged.jsonl`,
    /** The merged file in the published format. */
    encodedMerged: (ending: string) => `${folder}encoded-merged${ending}`,
    errors: `${folder}errors.jsonl`,
  };
}

/** Names of result files by row, written before the files. */
export const begunOutputsPath = `${outputsPrefix}begun.jsonl`;

/** All result files by input or by row, as a seal found them. */
export function outputsPathOf(generation: number): string {
  return `${outputsPrefix}g${generation}.jsonl`;
}

/** Record of coordinator N, and the file that it keeps changing while it lives. */
export function coordinatorPaths(number: number) {
  return leaderPaths(coordinatorPrefix, number);
}

/** The same of leader N, whose records lie in the folder `prefix`. */
export function leaderPaths(prefix: string, number: number) {
  return { record: numbered(prefix, number), heartbeat: numbered(prefix, number, ".heartbeat") };
}

/** Request N to cancel the run. */
export function cancelPath(number: number): string {
  return numbered(cancelPrefix, number);
}

/** Submission N to a scheduler. */
export function submissionPath(number: number): string {
  return numbered(submissionPrefix, number);
}

function numbered(prefix: string, number: number, ending = ".json"): string {
  return `${prefix}${String(number).padStart(6, "0")}${ending}`;
}

export const eventPrefix = "_sluice/events/";

/** Events of one writer: a coordinator by its number, or a joining worker by its id. */
export function eventLogPath(writer: number | string): string {
  return `${eventPrefix}${String(writer).padStart(6, "0")}.jsonl`;
}

/** The state of a worker, which it writes while it lives. */
export function workerPath(worker: string): string {
  return `${workerPrefix}${worker}.json`;
}

/** The request that a worker leaves its run. */
export function leavePath(worker: string): string {
  return `${leavePrefix}${worker}.json`;
}

/** Folder of the tries of a row whose answer is a program's end. */
export function rowLogsPrefix(row: number): string {
  return `${logPrefix}${row}/`;
}

/** What the program of one try wrote; ids sort by time. */
export function rowLogPath(row: number, id: string): string {
  return `${rowLogsPrefix(row)}${id}.jsonl`;
}

/** The one record that decides which try of a row gave the results of its mounts. */
export function stagedPath(row: number, { generation }: Pick<RunGeneration, "generation">): string {
  return `${stagedPrefix}g${generation}/${row}.json`;
}

export function taskBatchesPrefix(task: number, of: RunGeneration): string {
  return `${providerBatchesPrefix}${of.runId.toLowerCase()}.g${of.generation}/${task}/`;
}

interface NumberedBatch {
  task: number;
  number: number;
  key: string;
}

/** The requests of a batch: created once, before the provider is told to create the batch. */
export function providerBatchPath({ task, number }: NumberedBatch, of: RunGeneration): string {
  return `${taskBatchesPrefix(task, of)}${number}.json`;
}

/** The one record of the provider's id of a batch. */
export function providerBatchIdPath(
  { task, number, key }: NumberedBatch,
  of: RunGeneration,
): string {
  return `${taskBatchesPrefix(task, of)}${number}.${key}.json`;
}

/** Where dead processes may have left files, except for the many attempts. */
export const shallowPrefixes = [
  "_SUCCESS",
  "_manifest",
  "_sluice/plan",
  "_sluice/tasks",
  stdinPrefix,
  reportPath,
  submissionPrefix,
  cancelPrefix,
  claimPrefix,
  commitPrefix,
  coordinatorPrefix,
  deadLetterPrefix,
  generationPrefix,
  leavePrefix,
  logPrefix,
  manifestPrefix,
  menderPrefix,
  outputsPrefix,
  partPrefix,
  plansPrefix,
  probePrefix,
  providerBatchesPrefix,
  rowHashesPrefix,
  sealPrefix,
  stagedPrefix,
  workerPrefix,
];
