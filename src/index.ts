/**
 * Sluice for programs: run a job, look at a run, and the types and errors around both. See
 * docs/typescript.md. `sluice/testing` has fakes for tests of programs that use it.
 *
 * @packageDocumentation
 */
export {
  type PlaceOptions,
  type ResultsOptions,
  results,
  status,
  verify,
} from "./api/inspect.ts";
export {
  abandonRetry,
  type CancelOptions,
  cancel,
  clean,
  type ResumeOptions,
  type RetryOptions,
  resume,
  retry,
} from "./api/manage.ts";
export { type PlanOptions, plan, type RunOptions, run } from "./api/run.ts";
export { type FoundRun, runs } from "./api/runs.ts";
export type { StoreOptions } from "./data/s3/store-options.ts";
export { Dataset, type IterBatchesOptions } from "./dataset/dataset.ts";
export type {
  DatasetColumn,
  DatasetRun,
  ReadDatasetOptions,
  Resources,
  RunDatasetOptions,
} from "./dataset/execution.ts";
export { type GenerateOptions, generate, type Pipe, type StageModel } from "./dataset/generate.ts";
export {
  dataset,
  type FileRow,
  type InputPath,
  type TableOptions,
  type TextRow,
} from "./dataset/sources.ts";
export type { ModuleReference } from "./dataset/step-code.ts";
export type {
  BatchClass,
  BatchOptions,
  BatchResults,
  Closure,
  Columns,
  ColumnValues,
  FunctionOptions,
  UntypedRow,
} from "./dataset/types.ts";
export type { StageState } from "./engines/engine.ts";
export type { ModelOptions } from "./engines/model-options.ts";
export {
  type BatchCall,
  type HandlerCalls,
  type Predictor,
  type PredictorContext,
  type PredictorItem,
  type PredictorResults,
  predictor,
} from "./engines/predictor/predictor.ts";
export type {
  HandlerContext,
  HandlerRequest,
  TorchServeHandler,
} from "./engines/predictor/torchserve.ts";
export {
  type ErrorCode,
  type ErrorScope,
  errorTable,
  exitCodes,
} from "./foundation/error-table.ts";
export { type ErrorPlace, type ErrorRecord, SluiceError } from "./foundation/errors.ts";
export type { ExactJson, ExactRow, LongNumbers } from "./foundation/exact-json.ts";
export type {
  SamplingParameters,
  TextMessage,
  TooLongPolicy,
  Usage,
} from "./foundation/inference.ts";
export type { Json, JsonObject } from "./foundation/json.ts";
export type { Logger, LogLevel } from "./foundation/logger.ts";
export { shares } from "./foundation/shares.ts";
export type { CancelEnd } from "./run/cancel.ts";
export type { Cleaning } from "./run/clean.ts";
export type { JobInput, JobSpec } from "./run/job/schema.ts";
export type { RunPreview } from "./run/preview/preview.ts";
export type { Manifest } from "./run/seal/manifest.ts";
export type { Damage, MendedVerification, Verification } from "./run/seal/verify.ts";
export type { RunEvent, RunProgress, RunSummary } from "./run/status/events.ts";
export type { RunResult } from "./run/status/run-result.ts";
export type { RunStatus, StatusReport, TaskStatus, WorkerStatus } from "./run/status/status.ts";
