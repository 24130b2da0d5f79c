/**
 * What an error ends. `row`: one row, which becomes a dead letter. `engine`: the engine, which is
 * restarted and gets its rows again. `run`: the whole run, and the command with it.
 */
export type ErrorScope = "row" | "run" | "engine";

interface ErrorEntry {
  scope: ErrorScope;
  /** True if the same request may succeed a moment later. */
  retryable: boolean;
  /** Exit code of a command that ends with this error (sysexits.h). */
  exitCode: number;
  message: string;
  hint: string;
}

/** Each exit code has one meaning, the same for workers and for `sluice run`. */
export const exitCodes = Object.freeze({
  ok: 0,
  failedRows: 1,
  usage: 64,
  badInput: 65,
  engineUnavailable: 69,
  bug: 70,
  storage: 74,
  resumable: 75,
  interrupted: 130,
  terminated: 143,
});

const row = (message: string, hint: string, retryable = false): ErrorEntry => ({
  scope: "row",
  retryable,
  exitCode: exitCodes.badInput,
  message,
  hint,
});
const run = (exitCode: number, message: string, hint: string): ErrorEntry => ({
  scope: "run",
  retryable: false,
  exitCode,
  message,
  hint,
});
const engine = (message: string, hint: string): ErrorEntry => ({
  scope: "engine",
  retryable: true,
  exitCode: exitCodes.engineUnavailable,
  message,
  hint,
});

const { usage, badInput, engineUnavailable, bug, storage, resumable } = exitCodes;

/** Every error that Sluice names; `docs/errors.md` is written from it. Codes are never reused. */
export const errorTable = Object.freeze({
  // What was typed
  USAGE: run(usage, "the command is not understood", "see sluice --help"),
  OPTION_UNKNOWN: run(usage, "unknown option", "see sluice run --help for every option"),
  JOB_INVALID: run(usage, "the job is not valid", "see docs/job-file.md"),
  ENV_MISSING: run(
    usage,
    "an environment variable is not set",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it shows what job files may hold
    "set it, or write ${NAME:-fallback} in the job file",
  ),
  UNSUPPORTED: run(
    usage,
    "this is not supported",
    "see docs/engines.md for what each engine can do",
  ),
  RUN_DIFFERS: run(
    usage,
    "the output holds a run of another job",
    "use --fork to write beside it, --overwrite to replace it, or the job it was made with",
  ),
  OUTPUT_OCCUPIED: run(
    usage,
    "the output path holds something that is not a run",
    "name another --output, or move what is there",
  ),
  TARGET_DIFFERS: run(
    usage,
    "files of these names exist there with other content; they were left as they are",
    "compare them; --overwrite replaces them",
  ),
  NOT_A_RUN: run(usage, "there is no run here", "give the directory that sluice run wrote to"),

  // Input as a whole
  INPUT_MISSING: run(badInput, "no input file matches", "check input.path"),
  INPUT_UNREADABLE: run(badInput, "an input file cannot be read", "check its path and rights"),
  INPUT_UNREACHABLE: run(
    resumable,
    "the server of an input cannot be reached",
    "run the same command again when it answers: what is done is kept",
  ),
  INPUT_FORMAT: run(
    badInput,
    "the format of an input file is not known",
    "set input.format, as input: {path: …, format: jsonl}",
  ),
  INPUT_CHANGED: run(
    badInput,
    "the input is no longer what was planned",
    "restore it, or start a new run with --fork or --overwrite",
  ),
  COLUMN_UNKNOWN: run(
    badInput,
    "an input has no such column",
    "see input.columns and input.schema: the message names the columns that there are",
  ),
  INPUT_TOO_MANY_FILES: run(
    badInput,
    "the globs match too many files",
    "join them, or split the job",
  ),
  PROMPT_UNFIT: run(
    usage,
    "the prompt fits no row",
    "compare the names in the prompt with those of the rows",
  ),
  TEMPLATE_INVALID: run(usage, "a prompt template is not valid Jinja", "see docs/templates.md"),

  // Rows
  JSON_INVALID: row(
    "the line is not valid JSON",
    "correct the line, then run sluice retry RUN --reread",
  ),
  CSV_INVALID: row(
    "the record is not valid CSV",
    "correct the record, then run sluice retry RUN --reread",
  ),
  ROW_SCHEMA: row("the row does not fit input.schema", "correct the row, or the schema"),
  ROW_NOT_OBJECT: row("the row is not a JSON object", 'wrap the value, as {"text": …}'),
  UTF8_INVALID: row("the line is not valid UTF-8", "name the encoding of the file: input.encoding"),
  NUL_BYTE: row("the line holds a NUL byte", "remove it; the file may be UTF-16 or damaged"),
  LINE_TOO_LONG: row("the line is too long", "raise input.maxLineBytes"),
  ID_INVALID: row(
    "the id of the row is not a text or a number",
    "correct the row, or name another field in input.id",
  ),
  VARIABLE_MISSING: row(
    "the prompt uses a field that the row lacks",
    "guard it with `| default(…)` or `is defined`, or correct the row",
  ),
  FIELD_TYPE: row("a field has the wrong type for the prompt", "correct the row or the template"),
  COLUMN_INVALID: row("the model cannot read a column", "correct the row, or name another column"),
  LANGUAGE_UNKNOWN: row("the model does not know the language", "take one of its own codes"),
  AUDIO_INVALID: row("the recording cannot be read", "give a WAV file of 16-bit PCM"),
  TEMPLATE_FAILED: row("the prompt could not be rendered for this row", "check the template"),
  TEMPLATE_TOO_COSTLY: row(
    "rendering the prompt for this row takes too much time or memory",
    "loop over less, and make shorter texts and lists: a template lays out a row, it does not compute",
  ),
  PATTERN_TOO_SLOW: row(
    "a pattern took too long to match a text of this row",
    "write the pattern so that no part of a text fits it in two ways: (\\w+\\s?)+ as \\w[\\w\\s]*",
  ),
  ELEMENTS_TOO_MANY: row("forEach gives too many elements", "narrow the expression"),
  PROMPT_TOO_LONG: row(
    "the prompt does not fit the model's context",
    "set onTooLong to truncate-left or truncate-right, or model.contextTokens higher",
  ),
  PARAMETER_MISSING: row(
    "the request lacks a field that it must have",
    "see docs/openai-batch.md for the form of a request",
  ),
  PARAMETER_INVALID: row("a field of the request has a wrong value", "correct the request"),
  PARAMETER_UNSUPPORTED: row(
    "the request asks for something that is not supported",
    "take the field out; see docs/openai-batch.md for what is read",
  ),
  URL_UNSUPPORTED: row("the url of the request is not supported", "see docs/openai-batch.md"),
  MODEL_DIFFERS: row(
    "a batch line names another model than the one that answers",
    "name it in input.servedModelName (--served-model-name), or * for any",
  ),
  FILE_UNREADABLE: row(
    "a file that the row names cannot be read",
    "correct its path: paths are from the folder of the input",
  ),
  FILE_REFUSED: row(
    "rows and lists may not name this file",
    "set allow.folders or allow.privateNetworks if you trust what names it",
  ),
  STRUCTURE_REFUSED: run(
    engineUnavailable,
    "the server does not accept the schema of the answers",
    "set model.structuredOutput to what the server knows",
  ),
  REQUEST_REFUSED: row("the server refused the request", "read its message"),
  ANSWER_INVALID: row(
    "the answer does not have the requested form",
    "raise retries.maxAttempts, or loosen the schema or the pattern",
    true,
  ),
  ANSWER_EMPTY: row("the server's answer holds no choice", "try again later", true),
  RESPONSE_MALFORMED: row("the server's reply could not be read", "try again later", true),
  SERVER_ERROR: row("the server failed", "look at the server's log", true),
  TIMEOUT: row("the request took too long", "raise model.timeoutMs", true),
  CONNECTION_LOST: row("the connection broke", "look at the server and the network", true),
  PREDICTION_FAILED: row(
    "the predictor failed with this row",
    "look at the row and at the predictor; once it is fixed, sluice retry processes the row again",
  ),
  STAGE_FAILED: row(
    "a stage failed with this row",
    "look at the row and at the stage; once it is fixed, sluice retry processes the row again",
  ),
  OUT_OF_MEMORY: row(
    "not enough memory for this row, even alone",
    "take a smaller model, give it more memory, or split it over devices",
  ),
  QUEUE_FULL: row(
    "too many requests wait for the model",
    "send the request again later, or send fewer at once",
    true,
  ),
  DEADLINE_EXCEEDED: row(
    "the request waited past its deadline and was not computed",
    "give it a later deadline, or send fewer requests at once",
  ),
  REQUEST_INVALID: row("the request cannot be read", "send JSON, as the API asks"),
  BODY_TOO_LARGE: row("the body of the request is too large", "send less, or raise limits"),
  ROUTE_UNKNOWN: row("there is nothing at this address", "see docs/serve.md for the addresses"),
  TOKEN_INVALID: row(
    "the request has no valid token",
    "send one that the server knows, as Authorization: Bearer TOKEN",
  ),
  ORIGIN_REFUSED: row(
    "a server without tokens answers to no page of another site",
    "give the server tokens; if everybody may ask, set insecure: true",
  ),
  TOKEN_FORBIDDEN: row("the token may not do this", "take a token with the scope"),
  MODEL_NOT_SERVED: row("the server has no such model", "ask GET /v1/models for their names"),
  MODEL_LOADING: row(
    "the model is being loaded",
    "send the request again later; GET /readyz says when the server is ready",
    true,
  ),
  FILE_UNKNOWN: row("there is no such file", "ask GET /v1/files for their ids"),
  BATCH_UNKNOWN: row("there is no such batch", "ask GET /v1/batches for their ids"),
  BATCH_OVER: row("the batch can no longer be cancelled", "there is nothing to do"),
  BATCH_UNFINISHED: row("the batch has no manifest yet", "wait until its status is completed"),
  BATCH_EXPIRED: row("the window of the batch is over", "send the request in another batch"),
  BATCH_CANCELED: row("the batch was cancelled", "send the request in another batch"),
  BATCH_INCOMPLETE: row(
    "the batch at the provider ended without an answer to this request",
    "look at the batch at the provider; sluice retry sends the request in another one",
    true,
  ),
  RANGE_INVALID: row("the file has no such bytes", "ask for bytes that it has"),
  WORKERS_MISSING: row(
    "the model has no worker",
    "give it one: PUT /models/NAME?min_worker=1 at the management address",
  ),
  REQUEST_TIMED_OUT: row(
    "the request took longer than it may",
    "ask for fewer tokens, or raise limits.requestTimeoutMs",
  ),
  CLIENT_GONE: row("the client has left", "there is nothing to do: its requests were stopped"),
  SERVER_STOPPING: row("the server is being stopped", "send the request again later", true),
  RESULTS_MISCOUNTED: row(
    "the results of a batch are not one for each row",
    "give as many results as the batch has rows, in their order; all rows of the batch failed",
  ),
  ROW_KILLS_ENGINE: row(
    "this row ended its engine each time it was processed alone",
    "look at the row; if something else ended the workers, sluice retry processes it again",
  ),
  ROW_STALLS_WORKER: row(
    "this row kept its engine or worker from answering each time it was processed alone",
    "look at the row and the code it meets; raise model.timeoutMs if the row only takes long",
  ),
  COMMAND_INVALID: row(
    "a command is not valid",
    "correct the line: see docs/fleets.md for its fields",
  ),
  PROGRAM_FAILED: row(
    "the program failed",
    "read its output with sluice fleet logs, or in the run directory; sluice retry runs it again",
    true,
  ),
  PROGRAM_TIMED_OUT: row(
    "the program took too long and was ended with its children",
    "raise model.timeoutMs, which is the time-out of a fleet, or look at what it waits for",
    true,
  ),
  MOUNT_FAILED: row(
    "objects of a mount could not be staged",
    "look at the store and at the names of the files",
    true,
  ),
  FAKE_FAILURE: row("the fake engine was told to fail", "see model.failures", true),

  // Engines and models
  ENGINE_DIED: engine("the engine ended unexpectedly", "see the lines above; it is started again"),
  ENGINE_STALLED: engine(
    "the engine did not answer in time",
    "it is ended and restarted; raise model.timeoutMs if its rows only take long",
  ),
  ENGINE_START_FAILED: run(
    engineUnavailable,
    "the engine could not be started",
    "run sluice doctor",
  ),
  PROGRAM_MISSING: run(
    engineUnavailable,
    "a program is not on this machine",
    "install it, or name it with model.command",
  ),
  PACKAGE_BUNDLED: run(
    engineUnavailable,
    "files of the package sluice are missing",
    "keep it external where the program is bundled (--external:sluice), and install it beside",
  ),
  ENGINE_MISSING: run(
    engineUnavailable,
    "the engine's package is not installed",
    "run sluice engine add NAME",
  ),
  ENGINE_INSTALL_FAILED: run(
    engineUnavailable,
    "the engine's package could not be installed",
    "check that npm reaches its registry, then sluice engine add NAME",
  ),
  ENDPOINT_DOWN: run(
    engineUnavailable,
    "the endpoint did not answer for too long",
    "start it, then run the same command again: answered requests are not sent again",
  ),
  ENDPOINT_UNUSABLE: run(
    engineUnavailable,
    "the endpoint cannot be used as it is",
    "fix what the message names, then run the same command again",
  ),
  ENDPOINT_PATH_UNKNOWN: run(
    engineUnavailable,
    "the endpoint does not know the requested path",
    "check model.baseUrl: it usually ends in /v1, and api must be one that the server has",
  ),
  BATCH_STOPPED: run(
    resumable,
    "a batch was cancelled at the provider",
    "run the same command again: its answers are kept, and the rest goes into another batch",
  ),
  BATCH_LOST: run(
    engineUnavailable,
    "the provider does not know a batch of this run",
    "use the key of the account and project that created it; the message says how to give it up",
  ),
  AUTHENTICATION_FAILED: run(
    engineUnavailable,
    "the endpoint refused the credentials",
    "set the environment variable that model.apiKeyEnv names",
  ),
  ARCHIVE_INVALID: run(
    badInput,
    "the model archive cannot be used",
    "make it anew with sluice archive; docs/torchserve.md says what it may hold",
  ),
  SERVER_INVALID: run(usage, "the server's settings are not valid", "see docs/serve.md"),
  SERVER_RUNNING: run(
    usage,
    "a server of this folder is running already",
    "end it with sluice serve --stop, or start the other one in a folder of its own",
  ),
  SERVER_NOT_RUNNING: run(
    usage,
    "no server of this folder is running",
    "call it in the folder where sluice serve --start was called",
  ),
  LISTEN_FAILED: run(usage, "the server cannot listen there", "name another address in listen"),
  MODEL_UNKNOWN: run(engineUnavailable, "the model is not known", "run sluice model list"),
  MODEL_MISSING: run(
    engineUnavailable,
    "the model is not on this machine",
    "run sluice model pull NAME",
  ),
  MODEL_CORRUPT: run(
    engineUnavailable,
    "the model file is damaged or is not GGUF",
    "run sluice model remove NAME, then sluice model pull NAME",
  ),
  TASK_UNUSABLE: run(engineUnavailable, "the model does not suit the task", "read the message"),
  MODEL_FORMAT_DIFFERS: run(
    engineUnavailable,
    "the model has a format for another engine",
    "see docs/engines.md for what each engine runs",
  ),
  MODEL_TEMPLATE_UNUSABLE: run(
    engineUnavailable,
    "the model's chat template cannot be used",
    "ask with api: completion, or take another model",
  ),
  ADAPTER_UNUSABLE: run(
    engineUnavailable,
    "a LoRA adapter cannot be used with the model",
    "model.lora takes GGUF files that were made for this very model",
  ),
  PREDICTOR_UNUSABLE: run(
    engineUnavailable,
    "the predictor cannot be used",
    "fix what the message names, then run the same command again",
  ),
  STAGE_UNUSABLE: run(
    engineUnavailable,
    "a stage of the pipeline cannot be used",
    "fix what the message names, then run the same program again",
  ),
  MODEL_UNREADABLE: run(engineUnavailable, "the model file cannot be read", "check its path"),
  MODEL_DOWNLOAD_FAILED: run(
    engineUnavailable,
    "the model could not be fetched from any mirror",
    "fetch it by hand and name it by path",
  ),
  MODEL_FORBIDDEN: run(
    engineUnavailable,
    "the hub refused the model",
    "accept its licence on its page and set HF_TOKEN",
  ),

  // Runs
  ROW_FAILED: run(
    exitCodes.failedRows,
    "a row failed and onRowError is fail",
    "correct the row, or set onRowError: dead-letter",
  ),
  TOO_MANY_FAILED_ROWS: run(
    exitCodes.failedRows,
    "more rows failed than maxFailedRows allows",
    "fix what the summary's errors name and run the same command again; what is done is kept",
  ),
  TASK_FAILED: run(resumable, "a task failed in all its tries", "run the same command again"),
  RUN_OPEN: run(
    resumable,
    "the run is not finished",
    "sluice status DIR says what it lacks; the same command continues it",
  ),
  SCHEDULER_MISSING: run(
    engineUnavailable,
    "the program of the scheduler is not on this machine",
    "call sluice on a login node of the cluster, or install the scheduler's client here",
  ),
  SCHEDULER_REFUSED: run(
    engineUnavailable,
    "the scheduler refused or failed a request",
    "fix what it names; sluice render prints what is sent to it",
  ),
  DIRECTORY_NOT_SHARED: run(
    usage,
    "workers on other machines cannot see this place",
    "use a folder that all nodes mount, or an object store such as s3://bucket/out",
  ),
  WORKERS_GONE: run(
    resumable,
    "the scheduler has no worker left for this run",
    "sluice logs DIR says why; the same command submits the rest again",
  ),
  RAY_MISSING: run(
    engineUnavailable,
    "there is no Python with the package ray",
    "install it for python3 with pip, or name a Python that has it by ray.python",
  ),
  RAY_UNREACHABLE: run(
    engineUnavailable,
    "the Ray cluster cannot be reached",
    "set ray.address or RAY_ADDRESS to the head, as head:6379; ray status shows there whether it runs",
  ),
  RAY_SETUP_FAILED: run(
    engineUnavailable,
    "nodes of the Ray cluster cannot be set up for workers",
    "fix what it names, or install sluice-ray in the image of the nodes: see docs/backend-ray.md",
  ),
  RAY_JOB_FAILED: run(
    engineUnavailable,
    "the Ray job of the coordinator ended before it began",
    "fix what Ray says; the log of the job is in its dashboard",
  ),
  RAY_BRIDGE_DIED: run(
    resumable,
    "the connection to the Ray cluster has ended, and all workers with it",
    "what is done is kept; the same command continues",
  ),
  CLUSTER_FULL: run(
    resumable,
    "the cluster has no room for enough workers",
    "the same command continues later; workers.min and ray.maxRoomWaitMs say when a run gives up",
  ),
  RUN_DETACHED: run(
    resumable,
    "the run continues without this process",
    "sluice attach DIR shows it; sluice cancel DIR stops it",
  ),
  COORDINATOR_LIVES: run(
    resumable,
    "another process is running this run",
    "wait for it, or sluice cancel DIR",
  ),
  COORDINATOR_LOST: run(resumable, "another process took over this run", "look at that process"),
  BUDGET_SPENT: run(
    resumable,
    "the budget is spent",
    "raise budget and run the same command again; what is done is kept",
  ),
  RUN_CANCELED: run(resumable, "the run was canceled", "run the same command again to continue"),
  PLAN_TOO_LARGE: run(usage, "the plan is too large", "shorten prompts and globs"),
  PROTOCOL_DIFFERS: run(
    usage,
    "a worker is of another version of Sluice than its coordinator",
    "install the same version of sluice on every host",
  ),
  PROTOCOL: run(bug, "two processes of Sluice disagree on the protocol", "report this"),
  INTERNAL: run(bug, "this is a bug in Sluice", "report it with the lines above"),
  ROWS_UNBALANCED: run(
    bug,
    "rows and outcomes do not match",
    "nothing was committed; report this with the run directory",
  ),

  // Storage
  NOT_FOUND: run(storage, "the file is not there", "check the path"),
  STORE_FAILED: run(storage, "the storage failed", "fix it, then run the same command again"),
  STORE_FULL: run(storage, "the disk is full", "free some space, then run the same command again"),
  STORE_UNSUITABLE: run(
    storage,
    "the storage cannot create a file exactly once",
    "write to a local disk, or to a store with conditional writes",
  ),
  RUN_DAMAGED: run(storage, "the run directory is damaged", "run sluice verify DIR for each place"),
}) satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorTable;
