import {
  isDeeperThan,
  isJsonObject,
  type Json,
  type JsonObject,
  jsonObjectIn,
} from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { clipped } from "../../foundation/suggest.ts";
import type { BatchProblem } from "./batch.ts";

/** The endpoints of batches, and the member of a body that holds the question. */
export const batchEndpoints: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "messages",
  "/v1/completions": "prompt",
  "/v1/embeddings": "input",
};

/** Problems that a batch reports; the rest are of the same kind. */
const maxProblems = 1000;

export interface CheckOptions {
  endpoint: string;
  /** Most lines. */
  maxRequests: number;
  isServed(model: string): boolean;
}

export interface CheckedInput {
  /** Lines that are not empty. */
  requests: number;
  /** The model of all lines; undefined if none names one. */
  model: string | undefined;
  /** Empty if the batch can be carried out. */
  problems: BatchProblem[];
}

/** Checks the lines of a batch as OpenAI does before it starts one: a bad line fails the batch. */
export async function checkInput(
  lines: AsyncIterable<string>,
  options: CheckOptions,
): Promise<CheckedInput> {
  const check = new InputCheck(options);
  let number = 0;
  for await (const line of lines) {
    number++;
    if (line.trim() !== "") check.add(line, number);
    if (check.requests > options.maxRequests) break;
  }
  return check.end();
}

class InputCheck {
  requests = 0;
  readonly #options: CheckOptions;
  readonly #problems: BatchProblem[] = [];
  readonly #customIds = new Set<string>();
  #model: string | undefined;
  #line = 0;

  constructor(options: CheckOptions) {
    this.#options = options;
  }

  add(text: string, line: number): void {
    this.requests++;
    this.#line = line;
    const request = jsonObjectIn(text);
    if (request === undefined) {
      return this.#note("invalid_json_line", "This line is not parseable as valid JSON.", null);
    }
    if (isDeeperThan(limits.maxRequestDepth, request)) {
      const message = `This line nests deeper than ${limits.maxRequestDepth} levels.`;
      return this.#note("invalid_json_line", message, null);
    }
    for (const field of ["custom_id", "method", "url", "body"]) {
      if (isAbsent(request[field])) this.#missing(field, field);
    }
    this.#checkHead(request);
    if (isJsonObject(request.body)) this.#checkBody(request.body);
    else if (!isAbsent(request.body)) this.#wrong("body", "an object");
  }

  end(): CheckedInput {
    const { maxRequests } = this.#options;
    if (this.requests === 0) {
      const message =
        "The input file is empty. Please ensure that the batch contains at least one request.";
      this.#problems.push({ code: "empty_file", message, param: null, line: null });
    }
    if (this.requests > maxRequests) {
      const message = `The batch has more than ${maxRequests} requests, which is the limit.`;
      this.#problems.unshift({ code: "too_many_tasks", message, param: null, line: null });
    }
    return { requests: this.requests, model: this.#model, problems: this.#problems };
  }

  #checkHead({ custom_id: customId, method, url }: JsonObject): void {
    if (!isAbsent(customId)) this.#checkCustomId(customId!);
    if (!isAbsent(method) && method !== "POST") {
      const message = `Invalid value: '${shown(method!)}'. Supported values are: 'POST'.`;
      this.#note("invalid_value", message, "method");
    }
    if (!isAbsent(url) && url !== this.#options.endpoint) {
      const message = "The URL provided for this request does not match the batch endpoint.";
      this.#note("invalid_url", message, "url");
    }
  }

  #checkCustomId(customId: Json): void {
    if (typeof customId !== "string" || customId === "") {
      return this.#wrong("custom_id", "a text that is not empty");
    }
    if (this.#customIds.has(customId)) {
      const message =
        `The custom_id '${shown(customId)}' for this request is a duplicate of another request. ` +
        "The custom_id parameter must be unique for each request in a batch.";
      this.#note("duplicate_custom_id", message, "custom_id");
    }
    this.#customIds.add(customId);
  }

  #checkBody(body: JsonObject): void {
    const { model, stream } = body;
    if (isAbsent(model)) this.#missing("model", "body.model");
    else if (typeof model !== "string") this.#wrong("body.model", "a text");
    else this.#checkModel(model);
    const question = batchEndpoints[this.#options.endpoint]!;
    if (isAbsent(body[question])) this.#missing(question, `body.${question}`);
    if (stream === true) {
      const message = "Streaming is not supported in the Batch API.";
      this.#note("streaming_unsupported", message, "body.stream");
    }
  }

  #checkModel(model: string): void {
    if (!this.#options.isServed(model)) {
      const message = `The provided model '${shown(model)}' is not supported by the Batch API.`;
      return this.#note("model_not_found", message, "body.model");
    }
    this.#model ??= model;
    if (model === this.#model) return;
    const message =
      `The model '${shown(model)}' for this request does not match the rest of the batch. ` +
      "Each batch must contain requests for a single model.";
    this.#note("mismatched_model", message, "body.model");
  }

  #missing(name: string, param: string): void {
    this.#note("missing_required_parameter", `Missing required parameter: '${name}'.`, param);
  }

  #wrong(param: string, must: string): void {
    this.#note("invalid_type", `Invalid type for '${param}': it must be ${must}.`, param);
  }

  #note(code: string, message: string, param: string | null): void {
    if (this.#problems.length >= maxProblems) return;
    this.#problems.push({ code, message, param, line: this.#line });
  }
}

const isAbsent = (value: Json | undefined) => value === undefined || value === null;

function shown(value: Json): string {
  return clipped(typeof value === "string" ? value : JSON.stringify(value), 100);
}
