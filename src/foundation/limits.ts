/**
 * The bounds that a user of Sluice may meet, or that several rooms share. What tunes a single file
 * is defined in that file. A limit that a job may change is a default: the job schema refers to it.
 */
export const limits = Object.freeze({
  /** Longest line of an input file; a longer one becomes a dead letter. */
  maxLineBytes: 16 * 1024 * 1024,
  /** Bytes read from an input at a time. */
  readChunkBytes: 256 * 1024,
  /** Bytes of one request for a range of a remote file. */
  maxRangeBytes: 4 * 1024 * 1024,
  /** Connections to one web server that input files come from. */
  maxSourceConnections: 16,
  /**
   * Time that such a server has to accept a connection, and then may pause without sending a byte.
   */
  sourceConnectTimeoutMs: 10_000,
  sourceStallTimeoutMs: 60_000,
  /** Tries of one request to such a server, the first included. */
  maxSourceTries: 6,
  /** After this many unreachable files in a row, the servers are at fault and not the rows. */
  maxUnreachedFiles: 16,
  /** Largest response to a request for a list of files. */
  maxListingBytes: 64 * 1024 * 1024,
  /** Longest header of a CSV or TSV file. */
  maxHeaderBytes: 4 * 1024 * 1024,
  /** Bytes of a file that an upload or download holds at a time. */
  transferChunkBytes: 1024 * 1024,
  /** Files that one job's globs may match. */
  maxInputFiles: 1_000_000,
  maxParquetFooterBytes: 256 * 1024 * 1024,
  /** Most rows that a row group of a Parquet file may claim. */
  maxRowGroupRows: 2 ** 31 - 1,
  /** Largest page of a Parquet file, decompressed. */
  maxPageBytes: 512 * 1024 * 1024,
  /**
   * Time and memory that the decoder of Parquet and Arrow has for one step, such as a page. Past
   * either, it is ended and the error names the file.
   */
  maxDecodingStepMs: 30_000,
  maxDecodingHeapMegabytes: 2048,
  /** Longest metadata of one message of an Arrow file, and longest footer. */
  maxArrowMetadataBytes: 64 * 1024 * 1024,
  /** Characters, as JSON, of the rows in one row group of a Parquet output. */
  maxRowGroupChars: 4 * 1024 * 1024,
  /** Columns of a table in an output. */
  maxColumns: 10_000,
  /** An object with more fields becomes JSON text in a table … */
  maxStructFields: 1000,
  /** … as do objects and lists nested deeper than this. */
  maxColumnDepth: 32,
  /** Most files that `sluice shard` cuts an input into. */
  maxChunks: 100_000,
  /** Most rows of a task if the planner chooses its size. */
  maxTaskRows: 50_000,
  /** Largest job file. */
  maxJobFileBytes: 4 * 1024 * 1024,
  /** YAML tokens in it; four pieces of white space count as one. */
  maxJobLexemes: 300_000,
  /** Nesting depth of objects and lists in a job … */
  maxJobDepth: 100,
  /** … values in it, including the copies that YAML aliases make … */
  maxJobValues: 1_000_000,
  /** … and aliases of one anchor. */
  maxYamlAliases: 1000,
  /** Largest plan.json; every worker reads it. */
  maxPlanBytes: 1024 * 1024,
  /** Largest commit record. Stores answer a lost race cleanly only for small objects. */
  maxCommitBytes: 64 * 1024,
  /** Rows of one task that are read ahead of the engine. */
  maxReadAheadRows: 1000,
  /** Largest cache of answers, unless the job sets its size. */
  maxCacheBytes: 1024 * 1024 * 1024,
  /** Default rows of a batch, for engines that compute fixed batches. */
  defaultMaxBatchRows: 32,
  /** Most rows of a batch that may be asked for. */
  maxBatchRows: 65_536,
  /** Native calls, such as file reads, that run at once in a predictor's process. */
  maxPredictorNativeCalls: 4,
  /** Most rows that an automatic batch size may grow to. */
  maxAutoBatchRows: 1024,
  /** Batches that are searched ahead for requests of similar length. */
  lookAheadBatches: 8,
  /** Default rows of a batch of a pipeline stage. */
  defaultStageRows: 256,
  /** Open tasks whose journals are read for the counts when a run stops. */
  maxCountedTasks: 10_000,
  /** Tasks that one worker holds open at once. */
  maxOpenTasks: 64,
  /**
   * Open tasks of a worker of which no row is at the engine yet. Each takes 20 MB if rows are
   * short, and a second one saves little time.
   */
  maxTasksAhead: 1,
  /**
   * Each of the two halves of a worker's young-object space. Node's own value is 64 on machines
   * with much memory; a worker then peaks at 370 MB. Half of that costs a twelfth of the
   * throughput.
   */
  maxYoungSpaceMegabytes: 32,
  /**
   * Characters of texts that are made again and again. V8 maps memory for each text of 128 KiB or
   * more, and one that outlives a minor collection stays until a major one.
   */
  youngTextChars: 96 * 1024,
  /** Elements that one `forEach` may yield for one row. */
  maxElements: 10_000,
  /** Most tokens of an answer if neither the job nor the engine has a limit. */
  maxNewTokens: 256,
  /** Answers that a job may request for one prompt. */
  maxReturnSequences: 128,
  /** Beams of a beam search. */
  maxBeams: 128,
  /** Most of the likeliest tokens that a job may request for each token. */
  maxLogprobs: 20,
  /** Words of the text that a slot copies from. A grammar is made of its spans. */
  maxSlotSourceWords: 1024,
  /** Characters of that text. */
  maxSlotSourceChars: 256 * 1024,
  /** Longest template; a longer one fits into no plan. */
  maxTemplateSourceChars: 1024 * 1024,
  /** Nesting depth of expressions and blocks in a template. */
  maxTemplateDepth: 500,
  /**
   * The work that rendering one prompt of one row may take, in units. A step of the template or an
   * element of a loop is 100. An element of a list that is made or printed is 50. An element that a
   * filter reads, or that is put into one more list, is 6. A character that a filter or an operator
   * reads or makes is 1.
   */
  maxTemplateWork: 100_000_000,
  /** Longest text that a template makes, at any step: twice the longest row. */
  maxTemplateChars: 32 * 1024 * 1024,
  /** Elements of a list that a template makes or reads from a row, nested lists included. */
  maxTemplateElements: 1_000_000,
  /** Widest column that a filter pads. */
  maxTemplateWidth: 10_000,
  /** Digits of a number that a template calculates. */
  maxTemplateDigits: 10_000,
  /** Time that the patterns of a job may take to match an answer, a row or a source text. */
  maxPatternMs: 1000,
  /** Subschemas of a `schema`, including references to its own parts. */
  maxSchemaParts: 5000,
  /** Nesting depth of subschemas, and length of a chain of references. */
  maxSchemaDepth: 250,
  /** A pattern with groups nested deeper than this becomes no part of a grammar. */
  maxPatternDepth: 250,
  /** Digits of a number in a structured answer, before and after the point. */
  maxNumberDigits: 15,
  /** Elements of an array in a structured answer, if its schema sets no bound. */
  maxAnswerElements: 1000,
  /** Nesting depth of an answer that may be any JSON object. */
  maxFreeAnswerDepth: 8,
  /** Tries of one request, the first included. */
  maxRequestTries: 3,
  /** First and longest wait between two tries of a request. */
  backoffBaseMs: 500,
  backoffMaxMs: 60_000,
  /** Longest wait that a server may demand for a request that it failed … */
  maxRetryAfterMs: 600_000,
  /** … and for all requests, with a 429 or 503, before one of them tries the server again. */
  maxEndpointPauseMs: 60_000,
  /** First and longest wait before an excluded endpoint of several is tried again. */
  excludedEndpointMs: 60_000,
  maxExcludedEndpointMs: 600_000,
  /** How long to wait for the first answer of an endpoint that never answered. */
  firstAnswerMs: 10_000,
  /** How long an endpoint may be down before the run gives up, resumable. */
  maxEndpointDownMs: 600_000,
  /** Time one request may take. */
  requestTimeoutMs: 600_000,
  /** Largest response body of a server. */
  maxResponseBytes: 64 * 1024 * 1024,
  /** Nesting depth of the arguments of a tool call in an answer. */
  maxReplyDepth: 64,
  /** Nesting depth of what clients send to a server: Python's reader stops at some 1,000. */
  maxRequestDepth: 512,
  /** Servers of one model, and the largest weight of one relative to another. */
  maxEndpoints: 256,
  maxEndpointWeight: 1000,
  /** Requests that a job may have in flight at one server. */
  maxInFlight: 4096,
  /** Bytes of a batch's rows that wait for their model in a server, unless it has more slots. */
  maxWaitingRowBytes: 64 * 1024 * 1024,
  /** Texts in one embedding request: the most that a job may set, and the default. */
  maxEmbeddedTexts: 2048,
  defaultEmbeddedTexts: 32,
  /** Requests and bytes of one batch file of a provider: what OpenAI takes. */
  maxProviderBatchRequests: 50_000,
  maxProviderBatchBytes: 200_000_000,
  /** Largest file of results of such a batch. */
  maxProviderResultBytes: 8 * 1024 ** 3,
  /** Batches that one job may have at a provider at once, and the default. */
  maxProviderBatches: 1000,
  defaultProviderBatches: 4,
  /** Shortest and longest time between two looks at such a batch. */
  providerPollMs: 15_000,
  maxProviderPollMs: 300_000,
  /** How long such a batch waits for more requests of its task. */
  providerBatchDelayMs: 2000,
  /** Largest audio file sent for transcription. */
  maxTranscribedBytes: 1024 * 1024 * 1024,
  /** Largest image in a chat; it is part of the request's text. */
  maxImageBytes: 20 * 1024 * 1024,
  /** Extra tries of a task after its worker died. */
  maxTaskRetries: 3,
  /** Times that a row may kill its engine alone before the row is a dead letter. */
  maxRowKills: 3,
  /** Failed starts of an engine host in a row. */
  maxEngineStarts: 3,
  /** Deaths of an engine host in a row without an answer in between. */
  maxEngineDeaths: 16,
  /** Lines of a host's output that are kept to explain how it died. */
  maxHostOutputLines: 40,
  /** How long to wait for the rest of the output of a host that ended. */
  maxHostOutputWaitMs: 500,
  /** Time that a managed server may take until it answers; it may have to download its model … */
  serverLoadTimeoutMs: 1_800_000,
  /** … and the most that a job may set. */
  maxServerLoadTimeoutMs: 86_400_000,
  /** Time that a managed server has to stop; less than its worker has. */
  serverStopGraceMs: 5000,
  /** How long a run waits for room on a full cluster before it gives up, resumable. */
  maxRoomWaitMs: 900_000,
  /** Time that a worker may take until it is ready; a model may have to be loaded. */
  workerReadyTimeoutMs: 600_000,
  /** Time that a worker has to flush and stop. */
  stopGraceMs: 10_000,
  /** How long a scheduler that gives no notice waits for workers that were told to leave. */
  maxLeaveMs: 20_000,
  /** The same for a worker that lost its coordinator: all has ended 10 s after the loss. */
  orphanGraceMs: 5000,
  /** A ready worker that sends nothing for this long hangs, and is killed. */
  maxWorkerSilenceMs: 60_000,
  /** Time to render the prompt of a suspected row, and to read its answer. */
  maxSuspectComputeMs: 10_000,
  /** Interval between two task-progress messages of a task … */
  progressIntervalMs: 500,
  /** … and between two run-progress events. */
  runProgressIntervalMs: 5000,
  /** Silence of a joining worker's heartbeat after which others take its tasks. */
  maxHeartbeatSilenceMs: 10_000,
  /** Interval between two heartbeats of a worker or coordinator. */
  heartbeatIntervalMs: 2000,
  /** How long a coordinator on another machine is watched before it counts as dead. */
  coordinatorWatchMs: 10_000,
  /** Largest message between processes. */
  maxMessageBytes: 64 * 1024 * 1024,
  /** A temporary file unchanged for this long belongs to a dead process. */
  staleLeftoverMs: 3_600_000,
  /** Tries of one request to an object store, the first included. */
  maxStoreTries: 12,
  /** Time that an object store has to accept a connection, and then may pause. */
  storeConnectTimeoutMs: 5000,
  storeStallTimeoutMs: 60_000,
  /** Larger objects are written in parts of this size. */
  storePartBytes: 8 * 1024 * 1024,
  /** Appended bytes are sent to an object store when they are this old. */
  maxSegmentAgeMs: 30_000,
  /** Largest object or part that a store copies in one request. */
  maxStoreCopyBytes: 5 * 1024 * 1024 * 1024,
  /** Time that a mirror of models has to accept a connection before the next mirror is tried. */
  modelConnectTimeoutMs: 5000,
  /** Time that a download may pause without a byte. */
  modelStallTimeoutMs: 30_000,
  /** Redirects to follow for one file of a model. */
  maxRedirects: 10,
  /** Tries in a row of a download before its first byte, … */
  maxDownloadTries: 3,
  /** … and after it, without a further byte: the waits between them add up to about ten minutes. */
  maxResumeTries: 25,
  /** Largest header of a model file, which includes vocabulary and chat template. */
  maxModelHeaderBytes: 256 * 1024 * 1024,
  /** Time pip or npm may take to fetch a package. */
  packageFetchTimeoutMs: 1_800_000,
  /** Time that the GPU driver's program may take to list devices. */
  deviceListTimeoutMs: 10_000,
  /** Bytes of each output stream of a child program that are kept. */
  maxCommandOutputBytes: 64 * 1024,
  /** Rows on which a prompt is tried; if it fits none of them, the job is refused. */
  maxRowsLookedAt: 1000,
  /** Files of a model archive, and their bytes altogether. */
  maxArchiveFiles: 10_000,
  maxArchiveBytes: 64 * 1024 ** 3,
  /**
   * Bytes of an archive's files for each byte of the archive; the first megabytes count as small.
   */
  maxArchiveRatio: 200,
  smallArchiveBytes: 16 * 1024 * 1024,
  /** Time that a process that ends takes to export its last spans. */
  maxTelemetryFlushMs: 5000,
  /** Requests of a run whose spans each worker exports in a second; the others go untraced. */
  tracedRequestsPerSecond: 10,
});
