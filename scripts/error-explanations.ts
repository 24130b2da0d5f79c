// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the job file's own notation
import type { ErrorCode } from "../src/foundation/error-table.ts";

/** The paragraph that docs/errors.md gives each code: when it comes about, and what then holds. */
export const errorExplanations: Readonly<Record<ErrorCode, string>> = {
  USAGE: "A command or an argument is missing, unknown, or of the wrong form. Nothing was started.",
  OPTION_UNKNOWN:
    "A flag, a `--set` key or a `SLUICE_…` variable names nothing that can be set. Such names are never ignored, since a misspelt option would change a whole run in silence; the nearest known name is given.",
  JOB_INVALID:
    "The job file cannot be read, is not YAML, or a value in it, in the environment or among the flags does not fit the schema. Every problem is listed with its line and key.",
  ENV_MISSING:
    "A text of the job file holds `${NAME}` and the variable is not set. An empty variable counts as set; `${NAME:-fallback}` gives a value for both cases, and `$${NAME}` means the text itself. Or `model.apiKeyEnv` names a variable that is not set, or is empty.",
  UNSUPPORTED:
    "The job asks an engine or a storage for something that it cannot do. This is found before any row is sent.",
  RUN_DIFFERS:
    "The output already holds a run, and this job would give other answers than the one that began it. The differing keys are named. Mixing both in one output would make results that no job describes. A run that was begun, has no answer at all and nobody at work on it, as after a wrong model or key, is replaced instead, with a notice.",
  OUTPUT_OCCUPIED: "The output path holds files that no run of Sluice wrote. They are left alone.",
  TARGET_DIFFERS:
    "`sluice upload` or `sluice download` found files under the names it would write to, and their size or content is another one. All other files were transferred.",
  NOT_A_RUN: "A command such as `status` or `verify` was given a directory without `_sluice/`.",
  INPUT_MISSING:
    "A path does not exist or a glob matches no file. Relative paths of a job file start from the file's directory, those of flags and variables from the working directory.",
  INPUT_UNREADABLE:
    "A file exists and cannot be read: missing rights, a directory where a file is expected, or a file that as a whole is not of its format, such as a JSON array that ends in the middle.",
  INPUT_UNREACHABLE:
    "A web server, a hub or an object store that input lies on did not answer, broke off or was busy in all tries, or its name is not known. Committed tasks stay.",
  INPUT_FORMAT: "The format was not named and does not follow from the file's ending.",
  INPUT_CHANGED:
    "While planning, Sluice takes a checksum of every slice of the input. The bytes that a worker reads now are others. Answers that were committed stay; the task that found it stops.",
  COLUMN_UNKNOWN:
    "`input.columns` names a column, or `input.schema` requires one, that the file does not have: by its header or footer, or by its first 200 rows where a format has neither. A column that only later rows have is taken where `input.schema` has it as a property.",
  INPUT_TOO_MANY_FILES: "The globs match more files than one plan may list.",
  PROMPT_UNFIT:
    "The first 1,000 rows (all, if there are fewer) were rendered before anything was sent, and every one failed, usually because the prompt names a field that the file lacks. If a single row fits the prompt, the run goes on, and the others become dead letters.",
  TEMPLATE_INVALID:
    "A prompt, `system`, `forEach` or `copyFrom` is not valid Jinja. The message gives its place.",
  JSON_INVALID:
    "One line of a JSONL file, one element of a JSON array, or a JSON file that is not an array, is not JSON. The row keeps its index and becomes a dead letter; the others are answered.",
  CSV_INVALID:
    "A record of a CSV or TSV file has more or fewer fields than the header, or text behind a closing quote. The row keeps its index and becomes a dead letter; the others are answered. `field` is the first column that is missing.",
  ROW_SCHEMA:
    "The row does not fit the JSON Schema that `input.schema` is. `field` is the first that is wrong.",
  ROW_NOT_OBJECT:
    "The record is JSON, but a number, text, list or null. Only objects can take an answer field.",
  UTF8_INVALID:
    "The bytes of the row are not UTF-8. They are never replaced by question marks: a prompt that differs from the data in silence would be worse than none. `rowBase64` of the dead letter has them as they are.",
  NUL_BYTE: "The row holds a byte 0, which no text has. UTF-16 files look like this.",
  LINE_TOO_LONG:
    "The row is longer than `input.maxLineBytes`. It is skipped without being read into memory.",
  ID_INVALID:
    "`input.id` names the field that identifies a row. This row lacks the field, or its value is not a text or a number.",
  VARIABLE_MISSING:
    "The template uses a field that this row does not have. A field that is null counts as there. `{{ x | default('') }}` and `{% if x is defined %}` guard it. Where the row has a field of nearly that name, the message asks whether it was meant.",
  COLUMN_INVALID:
    "Engine `transformers` reads columns of the row: the text, the recording, languages, labels. The one that the message names is not there, or holds no text (of labels: no list of texts). Which column is read is said by `model.textColumn`, `audioColumn`, `srcLangColumn`, `tgtLangColumn` and `candidateLabelsColumn`.",
  LANGUAGE_UNKNOWN:
    "The row names a language by a code that the model does not have. M2M100 has codes like `fr`, NLLB codes like `fra_Latn`; the hint lists those of this model.",
  AUDIO_INVALID:
    "The recording is not there, or is not a WAV file of whole numbers (8, 16, 24, 32 bits) or 32-bit floats. `ffmpeg -i FILE -ac 1 -ar 16000 -c:a pcm_s16le FILE.wav` makes one of nearly anything.",
  FIELD_TYPE:
    "A filter or test got a value it cannot work on, such as `join` on a number. The message names the field.",
  TEMPLATE_FAILED: "The template is valid and failed with this row's values.",
  TEMPLATE_TOO_COSTLY:
    "A template may take a million steps and make 64 million characters for one row. Loops within loops and texts that double exceed that. Where the first rows all do, the job is refused.",
  PATTERN_TOO_SLOW:
    "Matching the patterns of a slot, of the answers' schema or of `input.schema` against a text of this row, or against its answer, took over a second, and was ended. Some patterns, such as `(\\w+\\s?)+$`, take longer than anybody can wait for a text of 40 characters that nearly fits.",
  ELEMENTS_TOO_MANY: "`forEach` gives more elements for this row than one row may ask about.",
  PROMPT_TOO_LONG:
    "Prompt and `generation.maxNewTokens` together exceed the context, and `onTooLong` is `fail`. The truncating policies cut the row's text and never the template's own.",
  PARAMETER_MISSING:
    "A line of an OpenAI batch file lacks `custom_id`, `method`, `url`, `body`, or its body lacks messages, a prompt or an input.",
  PARAMETER_INVALID:
    "A field of a line of an OpenAI batch file has a value that it must not have. The message names the field and says what it must be.",
  PARAMETER_UNSUPPORTED:
    "A request, or a line of an OpenAI batch file, holds a field that would change its answer and that Sluice or the engine does not have, such as `stream`, `tools` or an image. It is never dropped: the line fails, the others are answered.",
  URL_UNSUPPORTED:
    "A line of an OpenAI batch file asks an address other than `/v1/chat/completions`, `/v1/completions` or `/v1/embeddings`, or embeddings of an engine that gives none.",
  MODEL_DIFFERS:
    "The body of a line of an OpenAI batch file names a model, and it is neither `model.name` of the job nor one of `input.servedModelName`. An answer of another model would be worse than none.",
  REQUEST_REFUSED:
    "The server answered 400 or a code like it: this request will be refused each time. Its message is part of the dead letter.",
  FILE_UNREADABLE:
    "A prompt names a file by `file` (`api: transcription`) or by `image`, and for this row there is no such file, no right to read it, more bytes in it than are sent, or no image by its ending. The message has its whole path, or its address.",
  FILE_REFUSED:
    "Rows and lists come from strangers as often as from friends, so they do not reach everything that Sluice can read. A file of this machine that a row names has to lie below the folder of its input, or below a folder in `allow.folders`; links are followed first. An address in a row or list, and each that it redirects to, has to be of the public network unless `allow.privateNetworks` is true; metadata services of clouds and link-local addresses are never asked. Servers that the job itself names are not concerned. See docs/security.md.",
  STRUCTURE_REFUSED:
    "The server does not know the field with the `schema`, or cannot use the schema in it; its message says which. `model.structuredOutput` names another field, or `none`: then answers are checked, wrong ones are requested again, and the server gets no schema. If fields of the schema copy from each row, one row may be refused alone, as `REQUEST_REFUSED`.",
  ANSWER_INVALID:
    "The answer did not have the form that `answer` or `schema` asks for, in all its tries. The message says what was wrong with the last one, whose text is in `lastAnswer` of the dead letter.",
  ANSWER_EMPTY: "The server replied with success and an empty list of choices.",
  RESPONSE_MALFORMED:
    "The server replied with success, but its reply is not a valid answer: broken JSON, a wrong type, a body that ends early.",
  SERVER_ERROR: "The server answered with a 5xx code, in all tries.",
  TIMEOUT: "No answer came within `model.timeoutMs`, in all tries.",
  CONNECTION_LOST: "The connection broke after the request was sent, in all tries.",
  PREDICTION_FAILED:
    "The program or module that predicts threw, or returned an error, for this row; the message is its own. A batch that fails as a whole is halved until such a row is alone, so that its neighbours are answered.",
  STAGE_FAILED:
    "The function or class of a stage of a pipeline threw for this row, or returned an error or something other than rows; the message names the stage and is otherwise its own. A batch that fails as a whole is halved until such a row is alone.",
  OUT_OF_MEMORY:
    "A batch did not fit into memory, was halved until one row was left, and that row does not fit either. Larger batches are not tried again in this process. The library's own message follows.",
  QUEUE_FULL:
    "The queue in front of the model is full, so the request was refused at once instead of waiting without end. Nothing was computed for it. Runs do not meet this: they send only as many requests as the engine can use.",
  DEADLINE_EXCEEDED:
    "The caller said by when the request had to start, and no batch had room for it by then. It was dropped from the queue without being computed. A request that was being computed at its deadline is still answered. Runs set no deadlines.",
  REQUEST_INVALID:
    "The body of a request to `sluice serve` is not JSON, or not an object, or its HTTP is broken. Nothing was computed.",
  BODY_TOO_LARGE:
    "A request to `sluice serve` has more bytes than `limits.maxBodyBytes`, or an uploaded file more than `limits.maxFileBytes`.",
  ARCHIVE_INVALID:
    "A `.mar` archive is not a zip, has no `MAR-INF/MANIFEST.json`, or names what it does not have; or it could do harm: a path that leads out of it, a link, more files or bytes than it may unpack to. Nothing of it is kept.",
  SERVER_INVALID:
    "The file of `sluice serve` cannot be read or is not YAML, or a value in it, in a `config.properties` or among the flags is wrong. Every problem is listed with its line and key.",
  SERVER_RUNNING:
    "`sluice serve --start` found the process that the file `.sluice-serve.json` of this folder names.",
  SERVER_NOT_RUNNING:
    "`sluice serve --stop` found no `.sluice-serve.json` in this folder, or the process that it names has ended.",
  WORKERS_MISSING:
    "The model is registered at `sluice serve` and has no worker: it was registered with 0, or scaled to 0.",
  ROUTE_UNKNOWN: "`sluice serve` has nothing at this address, or not with this method.",
  TOKEN_INVALID:
    "`sluice serve` has `tokens`, and the request brings none of them. Only their digests are kept.",
  ORIGIN_REFUSED:
    "`sluice serve` has no `tokens`, and a page in a browser asked: its `Origin` is of another site, or its `Host` is a name of the public internet that leads to this machine.",
  TOKEN_FORBIDDEN: "The token is known, and its `scopes` lack what the address needs.",
  MODEL_NOT_SERVED: "The body names a model that this server does not have.",
  MODEL_LOADING:
    "`sluice serve` has begun to listen, and loads the models of its file one after another. TorchServe's wire says that the model has no worker.",
  FILE_UNKNOWN:
    "`sluice serve` has no file with this id: it was deleted, has expired, or never existed.",
  BATCH_UNKNOWN: "`sluice serve` has no batch with this id in its data directory.",
  BATCH_OVER:
    "A batch was to be cancelled that has ended, or is about to. Its results stay as they are.",
  BATCH_UNFINISHED:
    "The manifest of a batch is written when every row has an answer or an error. It does not exist yet, or the batch has failed.",
  BATCH_EXPIRED:
    "A row of a batch was not sent before the window of the batch ended. It is in the error file with the code `batch_expired`.",
  BATCH_CANCELED:
    "A row of a batch was not sent, because the batch was cancelled. It is in the error file with the code `batch_cancelled`.",
  BATCH_INCOMPLETE:
    "With `model.via: batch`: the provider's batch expired before the request was sent, or its results have no line about the request. The request goes into another batch, as often as `retries.maxAttempts` allows.",
  BATCH_STOPPED:
    "With `model.via: batch`: somebody cancelled a batch of the run at the provider while the run waited for it. The answers that the batch had are kept.",
  BATCH_LOST:
    "With `model.via: batch`: the provider answers 404 for a batch whose id the run has kept. Usually the key is of another account or project. Sending its requests again could pay for them twice, so the run stops; the hint names the folder to remove if the batch is gone for good.",
  RANGE_INVALID: "A Range header asks for bytes after the end of the file.",
  REQUEST_TIMED_OUT:
    "`limits.requestTimeoutMs` was over before the answer was whole. The model has stopped working on it.",
  CLIENT_GONE: "The client closed its connection. Its requests were stopped.",
  SERVER_STOPPING:
    "`sluice serve` got a signal: requests in work end, all others are refused with this.",
  RESULTS_MISCOUNTED:
    'A predictor, a program or a stage returned fewer or more results than its batch has rows. Nobody can tell which result belongs to which row, so all rows of the batch fail. The batch is not tried again in smaller ones: their count might fit by chance, with other results. The message has both counts and the start of what was returned. A stage of `mapBatches` that may return any number of rows says so with `rows: "any"`.',
  ROW_KILLS_ENGINE:
    "When an engine dies, its rows are sent again in ever smaller groups, until the guilty one is alone. A row that ended its engine three times alone is given up; its neighbours are answered. A worker that Sluice itself ended does not count. One that a person or the system ended (`kill -9`, full memory) cannot be told from one that its row ended: `sluice retry` sends such a row again.",
  ROW_STALLS_WORKER:
    "A predictor, a program or a stage did not answer within `timeoutMs`, or a worker said nothing for `workers.maxSilenceMs`: an endless loop, most often. It was ended, and its rows were sent again in ever smaller groups, until the guilty one was alone and did so three times. Its neighbours are answered. `sluice retry` sends the row again.",
  COMMAND_INVALID:
    "A row of engine `program` is not a command: `cmds` and `args` are lists of texts, `env` is an object of texts, and without a command in the job a row needs `cmds`. The task fails alone.",
  PROGRAM_FAILED:
    "The program of a task ended with another exit code than 0, or by a signal, in each of its tries. The message has the code and the last line of its output.",
  PROGRAM_TIMED_OUT:
    "The program of a task ran longer than `model.timeoutMs` in each of its tries. It got SIGTERM and, 2 s later, SIGKILL, with everything that it had started.",
  MOUNT_FAILED:
    "Objects of a mount could not be copied to the machine before a program, or its files to the store after it, or they had another size or hash there.",
  FAKE_FAILURE: "`model.failures` or `model.failureRate` asked for this failure.",
  ENGINE_STALLED:
    "A predictor, a program or a stage did not answer a batch within `timeoutMs`, or a worker said nothing for `workers.maxSilenceMs`. It is ended and started again. Nothing is lost: its rows are sent again, in small groups.",
  ENGINE_DIED:
    "The process that runs the model, or its worker, ended. It is started again and its rows are sent again. An event `worker-end` shows the code each time; a run ends with it only when that did not help.",
  ENGINE_START_FAILED:
    "The engine's process could not load its package or the model. The cause is in the message; the run stops at once, for no row could be answered.",
  ENGINE_MISSING:
    "The engine's package is not here and may not be added (`--no-install`), or there is none for this machine.",
  PACKAGE_BUNDLED:
    'A bundler has put Sluice into a program, or files of its folder were removed. Workers are processes of their own, which are started from files of the package. Bundle the program with `sluice` as an external package: `esbuild --external:sluice`, `external: ["sluice"]` of rolldown, Rollup and Vite (`ssr.external`), `serverExternalPackages: ["sluice"]` of Next.js; and install `sluice` where the program runs.',
  PROGRAM_MISSING:
    "The program that `model.command` names, or that the engine starts when nothing is said, is not on `PATH`, or is not a file that can be run. It is looked for before planning, and in each worker again.",
  ENGINE_INSTALL_FAILED:
    "npm could not add the engine's package. Its last lines are part of the message. What was there before is unchanged.",
  ENDPOINT_DOWN:
    "Refused connections and 429 replies pause the endpoint and cost no row a try. It stayed so for longer than `model.maxEndpointDownMs`, or it refused connections for `model.firstAnswerMs` at the start. The run can be continued.",
  ENDPOINT_UNUSABLE:
    "The account has no quota or credit left (402, or a 429 that says so), the server's certificate is not trusted, nobody knows its host name, or a proxy refuses. Asking again by itself would change nothing. The run can be continued once it is fixed.",
  ENDPOINT_PATH_UNKNOWN:
    "The server is there and answered 404 for the path itself: `model.baseUrl` usually lacks or doubles its `/v1`.",
  AUTHENTICATION_FAILED:
    "The server answered 401 or 403, at its list of models or to a row. Every further request would be refused too, so the run stops.",
  LISTEN_FAILED:
    "Another program has the port, the address is not of this machine, or the right to use it is missing.",
  MODEL_UNKNOWN:
    "The name is in no catalog and no file has it as its path, or the server does not know it.",
  MODEL_MISSING: "The model is known and not on this machine, and may not be fetched now.",
  MODEL_CORRUPT:
    "The file's digest is not the pinned one, or the file does not begin as GGUF files do.",
  TASK_UNUSABLE:
    "The model was loaded and does not fit what the job asks of it: languages that it does not know or that nobody named, labels that are wanting, or a model of another kind than `model.task`. The message says which.",
  MODEL_FORMAT_DIFFERS:
    "The path is a model for PyTorch, as a folder with `config.json` and `.safetensors`, and the engine runs GGUF or ONNX. Nothing is converted in silence. The hint has the `model` that runs the folder as it is, in Python.",
  MODEL_TEMPLATE_UNUSABLE:
    "The chat template inside the model file is missing or cannot be rendered. `api: completion` needs none.",
  ADAPTER_UNUSABLE:
    "A file of `model.lora` is not there, is damaged, or was made for another model; the message says which, and why.",
  PREDICTOR_UNUSABLE:
    "The module of a predictor does not load, exports no function that Sluice could call, failed in `load()`, or is another one than the run was planned with. The message names the file and the reason. No row was sent.",
  STAGE_UNUSABLE:
    "The module of a stage does not load, lacks the export that was named, failed in its constructor or in `load()`, or is another one than the run was planned with. Or the stage is a function of the program that began the run, which only that program can go on with. No row was sent.",
  MODEL_UNREADABLE: "The model file is there and cannot be opened or read.",
  MODEL_DOWNLOAD_FAILED:
    "Every mirror of the model failed; the message says how each did. What was fetched is kept and continued next time.",
  MODEL_FORBIDDEN:
    "The hub gives the model only to accounts that accepted its licence, or does not accept the token.",
  ROW_FAILED: "With `onRowError: fail` the first row that fails for good ends the run.",
  TOO_MANY_FAILED_ROWS:
    "The count or share that `maxFailedRows` allows was exceeded. Finished tasks stay committed, and the run can be continued after the cause is fixed.",
  TASK_FAILED: "The worker of a task died or failed in each of its `tasks.maxRetries` extra tries.",
  RUN_OPEN:
    "The command needs a finished run: every task committed, or the run sealed. The message says which tasks are open, as `sluice worker DIR --tasks` takes them.",
  SCHEDULER_MISSING:
    "A backend uses the scheduler's own client, such as `sbatch` and `squeue`, and it is not on `PATH`. Nothing was submitted. `sluice status` works without it.",
  SCHEDULER_REFUSED:
    "The scheduler's client ended with an error, which the message repeats: an unknown partition, a limit of the account, a controller that does not answer.",
  DIRECTORY_NOT_SHARED:
    "Workers run on other machines, and the folder of the run or of its input is on a disk of this one. Nothing was planned.",
  WORKERS_GONE:
    "Tasks are open, and every worker that was submitted has ended. The message names the workers that did not end well. What is committed is kept, and so are the answers of open tasks.",
  RAY_MISSING:
    "`backend: ray` joins the cluster by a Python program, and `python3`, or the Python of `ray.python`, is missing or lacks the package `ray`.",
  RAY_UNREACHABLE:
    "The cluster at `ray.address` (default: `RAY_ADDRESS`, else the cluster of this machine) does not answer. Nothing was planned.",
  RAY_SETUP_FAILED:
    "Ray could not prepare its nodes: `ray.runtimeEnv` cannot be built there, or nodes lack Sluice and `ray.software` is `installed`.",
  RAY_JOB_FAILED:
    "The cluster took the job, and it ended before its coordinator could say why: Ray could not prepare it or start it, or it was stopped from elsewhere.",
  RAY_BRIDGE_DIED:
    "The process between this one and the cluster has ended: it was killed, or Ray ended it because the head of the cluster is gone. Answers that were journaled are kept.",
  CLUSTER_FULL:
    "For `ray.maxRoomWaitMs`, fewer than `workers.min` workers found room, and others waited. What is done is kept.",
  RUN_DETACHED:
    "The scheduler's workers continue, and the last one seals the run. This process does not wait for them.",
  COORDINATOR_LIVES:
    "One process at a time leads a run. The one that leads it now is alive, on this host or another.",
  COORDINATOR_LOST:
    "This process led the run and found that another has taken it over, for instance after a long sleep of the machine. It stops; nothing is lost.",
  BUDGET_SPENT:
    "The run used up the tokens, the money or the minutes of `budget`. What was with the engine came in, everything done is kept, and the run can be continued.",
  RUN_CANCELED: "Ctrl-C, a signal or `sluice cancel` stopped the run. What was answered is kept.",
  PLAN_TOO_LARGE:
    "The plan, which every worker reads, exceeds its limit, usually by very long prompts.",
  PROTOCOL_DIFFERS:
    "Coordinator and workers talk by a numbered protocol, and the two numbers are not the same: a host has an older or newer Sluice. The run can be continued once all have the same.",
  PROTOCOL:
    "A worker or an engine host sent a message that the other side does not know, or too large a one. Mixed versions of Sluice do this.",
  INTERNAL: "Something happened that Sluice did not foresee. The stack is printed.",
  ROWS_UNBALANCED:
    "Before a commit, each planned row must have exactly one outcome. This was not so, and the commit was refused.",
  NOT_FOUND: "A file of the run, or one that was named, does not exist.",
  STORE_FAILED: "The storage refused an operation: missing rights, a broken disk, a lost mount.",
  STORE_FULL:
    "There is no space or quota left. Journals are whole up to the last line that was written.",
  STORE_UNSUITABLE:
    "Before a run, processes race to create one file, and exactly one must win. On this storage several did, or it cannot create files that way. Exactly-once cannot be kept here.",
  RUN_DAMAGED:
    "A plan, commit, part or manifest is missing, torn, or has another digest than recorded. `sluice verify` names each place.",
};
