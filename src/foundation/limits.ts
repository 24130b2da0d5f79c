/**
 * The bounds that a user of Sluice may meet, or that several rooms share, units last; what tunes
 * one file stands in that file. Those that a job may change are defaults; the job schema refers to
 * them.
 */
export const limits = Object.freeze({
  /** Longest line of an input file; a longer one becomes a dead letter. */
  maxLineBytes: 16 * 1024 * 1024,
  /** Bytes read from an input at a time. */
  readChunkBytes: 256 * 1024,
  /** Bytes of one request for a range of a remote file. */
  maxRangeBytes: 4 * 1024 * 1024,
  /** Connections to one web server that inputs come from. */
  maxSourceConnections: 16,
  /** Time such a server gets to take a connection, and may go without a byte. */
  sourceConnectTimeoutMs: 10_000,
  sourceStallTimeoutMs: 60_000,
  /** Tries of one request to it, the first included. */
  maxSourceAttempts: 6,
  /** Files in a row that no server of their kind gives: then it is not the rows that are wrong. */
  maxUnreachedFiles: 16,
  /** Largest page of a listing that a hub answers with. */
  maxListingBytes: 64 * 1024 * 1024,
  /** Longest header of a file of comma- or tab-separated values. */
  maxHeaderBytes: 4 * 1024 * 1024,
  /** Bytes of a file that a transfer moves at a time. */
  transferChunkBytes: 1024 * 1024,
  /** Files that one job's globs may match. */
  maxInputFiles: 1_000_000,
  /** Largest footer of a Parquet file. */
  maxParquetFooterBytes: 256 * 1024 * 1024,
  /** Rows that one row group of a Parquet file may say it has. */
  maxRowsOfGroup: 2 ** 31 - 1,
  /** Bytes of one page of a Parquet file, decompressed. */
  maxPageBytes: 512 * 1024 * 1024,
  /**
   * What decodes Parquet and Arrow gets this much time for one step, such as a page, and this much
   * memory; then it is ended, and the file named.
   */
  maxDecodingStepMs: 30_000,
  maxDecodingHeapMegabytes: 2048,
  /** Longest metadata of one message of an Arrow file, and longest footer. */
  maxArrowMetadataBytes: 64 * 1024 * 1024,
  /** Characters, as JSON, of the rows of a Parquet row group that is written. */
  maxRowGroupChars: 4 * 1024 * 1024,
  /** Columns of a table that is written. */
  maxColumns: 10_000,
  /** Fields of an object that a table keeps as fields; one with more is kept as JSON … */
  maxStructFields: 1000,
  /** … as are objects and lists deeper than this. */
  maxColumnDepth: 32,
  /** Files that an input is cut into. */
  maxChunks: 100_000,
  /** Rows of one task when the planner chooses. */
  maxTaskRows: 50_000,
  /** Largest job file. */
  maxJobFileBytes: 4 * 1024 * 1024,
  /** Words and signs of YAML in it; four pieces of white space count as one. */
  maxJobLexemes: 300_000,
  /** Objects and lists within one another in a job, … */
  maxJobDepth: 100,
  /** … values in it, the copies that YAML aliases make included, … */
  maxJobValues: 1_000_000,
  /** … and such copies of one anchor. */
  maxYamlAliases: 1000,
  /** plan.json is read by every worker and stays small. */
  maxPlanBytes: 1024 * 1024,
  /** A commit record stays small enough that stores answer a lost race cleanly. */
  maxCommitBytes: 64 * 1024,
  /** Rows read ahead of the engine, a task. */
  maxReadAheadRows: 1000,
  /** Largest cache of answers when nothing is said. */
  maxCacheBytes: 1024 * 1024 * 1024,
  /** Rows of a batch of an engine that computes fixed batches, when nothing is said. */
  defaultMaxBatchRows: 32,
  /** Requests that may wait for a batch: no run has so many, but callers from outside might. */
  maxQueueSize: 1_000_000,
  /** Native calls, such as reads of files, that go on at once in the process of a predictor. */
  predictorNativeCalls: 4,
  /** Rows to which an automatic size of batches may grow. */
  maxAutoBatchRows: 1024,
  /** Batches that are looked at for requests of one length. */
  lookAheadBatches: 8,
  /** Rows of a batch of a stage, where nothing is said of its size. */
  defaultStageRows: 256,
  /** Open tasks whose journals a stop looks into, for its counts. */
  maxCountedTasks: 10_000,
  /** Tasks that one worker holds open at once. */
  maxOpenTasks: 64,
  /** Such tasks; each takes 20 MB where rows are short, and a second one little of the time. */
  maxTasksAhead: 1,
  /**
   * Each of the two halves of a worker's young objects. Node's own bound is 64 on machines with
   * much memory, with which a worker peaks at 370 MB; half of that costs a twelfth of the
   * throughput.
   */
  maxYoungSpaceMegabytes: 32,
  /** Elements that one `forEach` may give for one row. */
  maxElements: 10_000,
  /** Most tokens of an answer where neither job nor engine has a limit. */
  maxNewTokens: 256,
  /** Answers that may be asked for to one prompt. */
  maxReturnSequences: 128,
  /** Beams of a beam search. */
  maxBeams: 128,
  /** Likeliest tokens that may be reported for each token. */
  maxLogprobs: 20,
  /** Words of the text that a slot copies from; a grammar is made of their spans. */
  maxSlotSourceWords: 1024,
  /** Its characters. */
  maxSlotSourceChars: 256 * 1024,
  /** Longest template: one that is longer fits into no plan. */
  maxTemplateSourceChars: 1024 * 1024,
  /** Expressions and blocks of a template within one another. */
  maxTemplateDepth: 500,
  /**
   * What rendering one prompt of one row may cost: a step of the template and an element of a loop
   * 100; an element of a list that is made or printed 50; one that a filter reads, or that stands
   * in one more list, 6; a character that a filter or an operator reads or makes 1.
   */
  maxTemplateWork: 100_000_000,
  /** Longest text that a template makes, in whole or in part: twice the longest row. */
  maxTemplateChars: 32 * 1024 * 1024,
  /** Elements of a list that a template makes, or reads from a row, lists within it included. */
  maxTemplateElements: 1_000_000,
  /** Widest column that a filter fills with blanks. */
  maxTemplateWidth: 10_000,
  /** Digits of a number that a template calculates. */
  maxTemplateDigits: 10_000,
  /** Time that patterns of a job may take to match an answer, a row or a text to copy from. */
  maxPatternMs: 1000,
  /** Schemas within a `schema`, the references to its own parts among them. */
  maxSchemaParts: 5000,
  /** How deep they lie within one another, and how many references follow on one another. */
  maxSchemaDepth: 250,
  /** Groups within one another, up to which a pattern becomes part of a grammar. */
  maxPatternDepth: 250,
  /** Digits of a number of a structured answer, before and behind the point. */
  maxNumberDigits: 15,
  /** Elements of an array of a structured answer, where its schema does not say. */
  maxAnswerElements: 1000,
  /** Objects and arrays within one another, in an answer that may be any JSON object. */
  maxFreeAnswerDepth: 8,
  /** Tries of one request, the first included. */
  maxRequestAttempts: 3,
  /** First and longest wait between two tries of a request. */
  retryBaseMs: 500,
  retryMaxMs: 60_000,
  /** Longest that a server may ask one request to wait … */
  maxRetryAfterMs: 600_000,
  /** … and longest that it may ask all requests to wait, before one of them tries it again. */
  maxEndpointPauseMs: 60_000,
  /** How long an endpoint that never answered is waited for. */
  firstAnswerMs: 10_000,
  /** How long an endpoint may be down before the run gives up, resumable. */
  maxEndpointDownMs: 600_000,
  /** Time one request may take. */
  requestTimeoutMs: 600_000,
  /** Largest answer body taken from a server. */
  maxResponseBytes: 64 * 1024 * 1024,
  /** Objects and lists within one another in what an answer calls. */
  maxReplyDepth: 64,
  /** Servers of one model, and how much more one may be given than another. */
  maxEndpoints: 256,
  maxEndpointWeight: 1000,
  /** Requests at once that a job may send to one server. */
  maxInFlight: 4096,
  /** Texts of one request for vectors: most that a job may set, and when nothing is said. */
  maxEmbeddedTexts: 2048,
  defaultEmbeddedTexts: 32,
  /** Largest file that is sent to be transcribed. */
  maxTranscribedBytes: 1024 * 1024 * 1024,
  /** Largest image that a chat shows: it stands in the request's text. */
  maxImageBytes: 20 * 1024 * 1024,
  /** Extra tries of a task after its worker died. */
  maxTaskRetries: 3,
  /** Times a row may kill its engine alone before it is given up. */
  maxRowKills: 3,
  /** Starts of an engine host in a row of which none got ready. */
  maxEngineStarts: 3,
  /** Deaths of an engine host in a row without one answer between them. */
  maxEngineDeaths: 16,
  /** How long an engine host collects deltas before it sends them on. */
  maxDeltaDelayMs: 10,
  /** Characters of deltas that it collects at most. */
  maxHeldDeltaChars: 65_536,
  /** Lines of a host's output that are kept to explain its death. */
  maxHostOutputLines: 40,
  /** How long the output of an ended host is waited for. */
  maxHostOutputWaitMs: 500,
  /** Time a managed server may take until it answers (it may fetch its model) … */
  serverLoadTimeoutMs: 1_800_000,
  /** … and the most that a job may allow. */
  maxServerLoadTimeoutMs: 86_400_000,
  /** Time that one look at a server may take while it loads. */
  serverHealthTimeoutMs: 5000,
  /** Time a managed server gets to leave; less than its worker gets. */
  serverStopGraceMs: 5000,
  /** Longest a worker may take to get ready (a model may have to be loaded). */
  workerReadyTimeoutMs: 600_000,
  /** Time a worker gets to flush and leave. */
  stopGraceMs: 10_000,
  /** The same of what is asked once its coordinator is gone: all has ended 10 s after that. */
  orphanGraceMs: 5000,
  /** A ready worker that says nothing for this long hangs, and is ended. */
  maxWorkerSilenceMs: 60_000,
  /** Time that the prompt of a suspected row may take, and the reading of its answer. */
  maxSuspectComputeMs: 10_000,
  /** Between two task-progress messages of a task … */
  progressIntervalMs: 500,
  /** … and between two run-progress events. */
  runProgressIntervalMs: 5000,
  /** Between two heartbeats of a worker or coordinator. */
  heartbeatIntervalMs: 2000,
  /** How long a coordinator on another host is watched before it counts as dead. */
  coordinatorWatchMs: 10_000,
  /** One message between processes. */
  maxMessageBytes: 64 * 1024 * 1024,
  /** What was being written and has not changed for this long belongs to a dead process. */
  staleLeftoverMs: 3_600_000,
  /** Tries of one request to an object store, the first included. */
  maxStoreAttempts: 12,
  /** Time an object store gets to take a connection, and may then stand still. */
  storeConnectTimeoutMs: 5000,
  storeStallTimeoutMs: 60_000,
  /** Larger objects are written in parts of this size. */
  storePartBytes: 8 * 1024 * 1024,
  /** What is appended goes to an object store when it is this old. */
  maxSegmentAgeMs: 30_000,
  /** Largest object, or part, that a store copies in one request. */
  maxStoreCopyBytes: 5 * 1024 * 1024 * 1024,
  /** Time a mirror of models gets to take a connection, before the next one is tried. */
  modelConnectTimeoutMs: 5000,
  /** Time a download may stand still. */
  modelStallTimeoutMs: 30_000,
  /** Redirects followed for one file of a model. */
  maxRedirects: 10,
  /** Connections of one download that may break without a byte gained. */
  maxDownloadAttempts: 3,
  /** Header of a model file; vocabulary and chat template are part of it. */
  maxModelHeaderBytes: 256 * 1024 * 1024,
  /** Time pip or npm may take to fetch a package. */
  packageFetchTimeoutMs: 1_800_000,
  /** Time the GPU driver's program may take to list the devices. */
  deviceListTimeoutMs: 10_000,
  /** Output of a child program that is kept, a stream. */
  maxCommandOutputBytes: 64 * 1024,
  /** Rows that a prompt is tried on before one that fits none of them is refused. */
  maxRowsLookedAt: 1000,
});
