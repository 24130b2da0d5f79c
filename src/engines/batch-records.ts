/** One batch of a provider, as a run keeps it: written before the provider is told to create it. */
export interface BatchRecord {
  /** Drawn for this batch; the provider's metadata has it. */
  key: string;
  task: number;
  /** Number among the batches of its task, from 1. */
  number: number;
  /** Path of the requests, such as `/v1/chat/completions`. */
  url: string;
  /** The provider's id of the file with the requests, and the provider's time of its creation. */
  inputFile: string;
  inputCreatedAt: number;
  /** The ids of the requests in the order of the file's lines. */
  requests: readonly string[];
}

/** A batch that a run has kept, with the provider's id if that is known. */
export interface KeptBatch {
  record: BatchRecord;
  batch: string | undefined;
}

/** Where an engine keeps what it must find again after a kill: its batches at a provider. */
export interface BatchRecords {
  /** Names the run in the provider's metadata. */
  readonly run: string;
  taskOf(row: number): Promise<number>;
  /** The batches of a task with numbers above `after`, oldest first. */
  list(task: number, after: number): Promise<BatchRecord[]>;
  /** Keeps a new batch, and returns the one that has its number: another process may be first. */
  create(record: BatchRecord): Promise<BatchRecord>;
  /**
   * Keeps the provider's id of a batch, or null if it will not be created; returns what counts: the
   * first one kept.
   */
  keepId(record: BatchRecord, batch: string | null): Promise<string | null>;
  /** What `keepId` kept of a batch, in any process. */
  idOf(record: BatchRecord): Promise<string | null | undefined>;
  /** Where the record is, for people. */
  placeOf(record: BatchRecord): string;
}

/** A batch that holds requests of an engine, at one moment. */
export interface BatchState {
  task: number;
  /** The provider's id; absent until the provider has created it. */
  batch?: string;
  /** `waiting`, `uploading`, `creating` before it is there; then the provider's own word. */
  state: string;
  requests: number;
  /** Requests with an answer or an error, as the provider counts them. */
  done: number;
}
