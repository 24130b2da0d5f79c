import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  anywhere,
  asJson,
  ask,
  bodyOf,
  done,
  internal,
  json,
  masked,
  noWorker,
  Place,
  probe,
  refused,
  reply,
} from "./torchserve-place.ts";

const unknownResource = refused(
  "404 Not Found",
  "ResourceNotFoundException",
  "Requested resource is not found, please refer to API document.",
);
const wrongMethod = refused(
  "405 Method Not Allowed",
  "MethodNotAllowedException",
  "Requested method is not allowed, please refer to API document.",
);
const unknownModel = refused("404 Not Found", "ModelNotFoundException", "Model not found: nope");
const unknownVersion = refused(
  "404 Not Found",
  "ModelVersionNotFoundException",
  "Model version: 9.0 does not exist for model: noop",
);
type Line = [request: string, expected: string, body?: string, ...headers: string[]];

/** On the inference address, with `noop` and `probe` of one worker. */
const inference: Line[] = [
  ["GET /ping", done("Healthy")],
  ["HEAD /ping", done("Healthy").split("{")[0]!],
  // The id of a client is ignored: the reply has a new one.
  ["GET /ping", done("Healthy"), "", "x-request-id: mine"],
  ["GET /token?type=inference", unknownResource],
  ["POST /predictions/nope", unknownModel],
  ["POST /predictions/noop/9.0", unknownVersion],
  ["POST /predictions", unknownResource],
  ["GET /nothing/here", unknownResource],
  ["GET /models", unknownResource],
  ["POST /predictions/probe", reply("200 ", '{\n  "a": 1.0\n}'), '{"a":1.0}', asJson],
  ["PUT /predictions/probe", reply("200 ", '{\n  "a": 1\n}'), '{"a":1}', asJson],
  ["POST /predictions/probe/1.0", reply("200 ", '{\n  "\\u00e9": []\n}'), '{"é":[]}', asJson],
  ["POST /predictions/probe", reply("200 ", '{"a":1}'), '{"a":1}', "content-type: text/plain"],
  ["POST /predictions/probe", reply("200 ", "{not json"), "{not json", asJson],
  ["POST /v1/models/probe:predict", reply("200 ", '{\n  "a": 1\n}'), '{"a":1}', asJson],
  ["POST /v2/models/probe/infer", reply("200 ", '{\n  "a": 1\n}'), '{"a":1}', asJson],
  ["POST /models/probe/invoke", reply("200 ", '{\n  "a": 1\n}'), '{"a":1}', asJson],
  ["POST /probe/predict", reply("200 ", '{\n  "a": 1\n}'), '{"a":1}', asJson],
  [
    "POST /predictions/probe/1.0/v1/chat/completions",
    reply("200 ", "v1/chat/completions"),
    '{"see":"url_path"}',
    asJson,
  ],
  ["POST /explanations/probe", reply("200 ", "True"), '{"see":"explain"}', asJson],
  ["POST /predictions/probe", reply("200 ", "False"), '{"see":"explain"}', asJson],
  ["POST /predictions/probe", reply("200 ", "Yes"), '{"see":"X-Mine"}', asJson, "X-Mine: Yes"],
  [
    "POST /predictions/probe",
    reply("200 ", '{\n  "data": "two"\n}'),
    ["one", "two"]
      .map((text) => `--b\r\ncontent-disposition: form-data; name="data"\r\n\r\n${text}\r\n`)
      .join("")
      .concat("--b--\r\n"),
    "content-type: multipart/form-data; boundary=b",
  ],
  [
    "POST /predictions/probe",
    reply("418 I am a teapot", '{\n  "teapot": 1\n}', "application/json", ["x-row: 0"]),
    '{"teapot":1}',
    asJson,
  ],
  [
    "POST /predictions/probe",
    internal("503 Service Unavailable", "Prediction failed"),
    '{"raise":"boom"}',
    asJson,
  ],
  [
    "POST /predictions/probe",
    internal("507 Insufficient Storage", "Out of resources"),
    '{"raise":"CUDA error"}',
    asJson,
  ],
  [
    "POST /predictions/probe",
    internal("503 Service Unavailable", "number of batch response mismatched"),
    '{"many":1}',
    asJson,
  ],
  [
    "POST /predictions/probe",
    internal("503 Service Unavailable", "Invalid model predict output"),
    '{"text":1}',
    asJson,
  ],
  [
    "POST /predictions/probe",
    internal("422 Unprocessable Entity", "row is not acceptable"),
    '{"refuse":1}',
    asJson,
  ],
  [
    "POST /invocations",
    refused("400 Bad Request", "BadRequestException", "Parameter model_name is required."),
    "{}",
    asJson,
  ],
  [
    "POST /predictions/probe",
    internal("500 Internal Server Error", "Worker died."),
    '{"exit":1}',
    asJson,
  ],
  // The next request waited for the new worker.
  ["POST /predictions/probe", reply("200 ", '{\n  "a": 1\n}'), '{"a":1}', asJson],
  [
    "POST /predictions/probe",
    "HTTP/1.1 413 Request Entity Too Large\r\ncontent-length: 0\r\n\r\n",
    "x".repeat(70_000),
    asJson,
  ],
];

/** A model as `GET /models/NAME` describes it. */
const described = (name: string, more: object) => ({
  modelName: name,
  modelVersion: "1.0",
  modelUrl: `${name}.mar`,
  runtime: "python",
  ...{ minWorkers: 1, maxWorkers: 1, batchSize: 1, maxBatchDelay: 100 },
  ...{ responseTimeout: 120, startupTimeout: 120, maxRetryTimeoutInSec: 300 },
  ...{ clientTimeoutInMills: 0, parallelType: "", parallelLevel: 0, deviceType: "cpu" },
  ...{ continuousBatching: false, useJobTicket: false, useVenv: false, stateful: false },
  ...{ sequenceMaxIdleMSec: 0, sequenceTimeoutMSec: 0, maxNumSequence: 0 },
  ...{ maxSequenceJobQueueSize: 0, loadedAtStartup: false },
  workers: [],
  jobQueueStatus: { remainingCapacity: 100, pendingRequests: 0 },
  ...more,
});

const worker = {
  id: "ID",
  startTime: "TIME",
  status: "READY",
  memoryUsage: 0,
  pid: 1,
  gpu: false,
  gpuUsage: "N/A",
};

const noopBody = described("noop", { batchSize: 16, maxBatchDelay: 10, workers: [worker] });

/** Registers a model without workers, looks at what it says of one setting, and removes it. */
const shortLived = (name: string, query: string, setting: object): Line[] => [
  [
    `POST /models?url=probe.mar&model_name=${encodeURIComponent(name)}&initial_workers=0${query}`,
    done(
      `Model "${name}" Version: 1.0 registered with 0 initial workers. Use scale workers API to ` +
        "add workers for the model.",
    ),
  ],
  [
    `GET /models/${encodeURIComponent(name)}`,
    reply(
      "200 OK",
      json([described(name, { modelUrl: "probe.mar", minWorkers: 0, maxWorkers: 0, ...setting })]),
      "application/json",
    ),
  ],
  [`DELETE /models/${encodeURIComponent(name)}`, done(`Model "${name}" unregistered`)],
];

/** On the management address, in this order, from an empty one. */
const management: Line[] = [
  ["GET /models", reply("200 OK", json({ models: [] }), "application/json")],
  [
    "POST /models?url=noop.mar&initial_workers=1&synchronous=true&batch_size=16&max_batch_delay=10",
    done('Model "noop" Version: 1.0 registered with 1 initial workers'),
  ],
  ["GET /models/noop", reply("200 OK", json([noopBody]), "application/json")],
  ["GET /models/noop/all", reply("200 OK", json([noopBody]), "application/json")],
  [
    "GET /models/noop/1.0?customized=true",
    reply("200 ", json([{ ...noopBody, customizedMetadata: {} }]), "application/json"),
  ],
  [
    "POST /models?url=probe.mar&initial_workers=0",
    done(
      'Model "probe" Version: 1.0 registered with 0 initial workers. Use scale workers API to ' +
        "add workers for the model.",
    ),
  ],
  [
    "POST /models?url=probe.mar",
    refused(
      "409 Conflict",
      "ConflictStatusException",
      "Model version 1.0 is already registered for model probe",
    ),
  ],
  [
    "GET /models",
    reply(
      "200 OK",
      json({
        models: [
          { modelName: "noop", modelUrl: "noop.mar" },
          { modelName: "probe", modelUrl: "probe.mar" },
        ],
      }),
      "application/json",
    ),
  ],
  [
    "GET /models?limit=1",
    reply(
      "200 OK",
      json({ nextPageToken: "1", models: [{ modelName: "noop", modelUrl: "noop.mar" }] }),
      "application/json",
    ),
  ],
  [
    "GET /models?limit=1&next_page_token=1",
    reply(
      "200 OK",
      json({ models: [{ modelName: "probe", modelUrl: "probe.mar" }] }),
      "application/json",
    ),
  ],
  [
    "GET /models?limit=0",
    reply("200 OK", json({ nextPageToken: "0", models: [] }), "application/json"),
  ],
  [
    "GET /models?limit=1&next_page_token=zzz",
    reply(
      "200 OK",
      json({ nextPageToken: "1", models: [{ modelName: "noop", modelUrl: "noop.mar" }] }),
      "application/json",
    ),
  ],
  ...shortLived("none", "&batch_size=0", { batchSize: 0 }),
  ...shortLived("minus", "&batch_size=-1", { batchSize: 1 }),
  ...shortLived("letters", "&batch_size=abc", { batchSize: 1 }),
  ...shortLived("1bad name", "", {}),
  ["GET /token?type=inference", unknownResource],
  ["GET /v1/models/noop", reply("200 OK", json({ name: "noop", ready: true }), "application/json")],
  ["GET /models/nope", unknownModel],
  ["PUT /models/nope", unknownModel],
  ["DELETE /models/nope", unknownModel],
  ["PUT /models/nope/1.0/set-default", unknownModel],
  ["GET /models/noop/9.0", unknownVersion],
  ["PUT /models/noop/9.0", unknownVersion],
  ["DELETE /models/noop/9.0", unknownVersion],
  [
    "PUT /models/noop/5.0/set-default",
    refused(
      "404 Not Found",
      "ModelVersionNotFoundException",
      "Model version 5.0 does not exist for model noop",
    ),
  ],
  ["GET /metrics", unknownResource],
  ["PATCH /models/noop", wrongMethod],
  ["POST /models", refused("400 Bad Request", "BadRequestException", "Parameter url is required.")],
  [
    "POST /models?url=missing.mar",
    refused("404 Not Found", "ModelNotFoundException", "Model not found at: missing.mar"),
  ],
  [
    "POST /models?url=../noop.mar",
    refused(
      "404 Not Found",
      "ModelNotFoundException",
      "Relative path is not allowed in url: ../noop.mar",
    ),
  ],
  [
    "POST /models?url=http://127.0.0.1:1/x.mar",
    refused(
      "400 Bad Request",
      "DownloadArchiveException",
      "Failed to download archive from: http://127.0.0.1:1/x.mar",
    ),
  ],
  [
    "POST /models?runtime=ruby",
    refused("400 Bad Request", "BadRequestException", "Invalid RuntimeType value: ruby"),
  ],
  [
    "PUT /models/noop?min_worker=3&max_worker=1",
    refused("400 Bad Request", "BadRequestException", "max_worker cannot be less than min_worker."),
  ],
  ["PUT /models/noop?min_worker=abc", done("Processing worker updates...", "202 Accepted")],
  ["PUT /models/probe?min_worker=1", done("Processing worker updates...", "202 Accepted")],
  ["PUT /models/probe?min_worker=2&synchronous=true", done("Workers scaled to 2 for model: probe")],
  [
    "GET /models/probe",
    reply(
      "200 OK",
      json([described("probe", { minWorkers: 2, maxWorkers: 2, workers: [worker, worker] })]),
      "application/json",
    ),
  ],
  [
    "PUT /models/probe/1.0?min_worker=1&max_worker=1&synchronous=true",
    done("Workers scaled to 1 for model: probe, version: 1.0"),
  ],
  [
    "POST /models?url=noop2.mar&model_name=noop&initial_workers=1&synchronous=false",
    done("Processing worker updates...", "202 Accepted"),
  ],
  [
    "DELETE /models/noop",
    refused(
      "403 Forbidden",
      "InvalidModelVersionException",
      "Cannot remove default version for model noop",
    ),
  ],
  [
    "PUT /models/noop/2.0/set-default",
    done('Default version successfully updated for model "noop" to "2.0"'),
  ],
  ["DELETE /models/noop/1.0", done('Model "noop" unregistered')],
  [
    "PUT /models/noop/1.0/set-default",
    refused(
      "404 Not Found",
      "ModelVersionNotFoundException",
      "Model version 1.0 does not exist for model noop",
    ),
  ],
];

async function replay(address: string, lines: readonly Line[]): Promise<void> {
  for (const [request, expected, body, ...headers] of lines) {
    const given = masked(await ask(address, request, body, headers));
    let whole = masked(expected);
    // The length of a description counts real numbers and times.
    const [length = ""] = /content-length: \d+/.exec(given) ?? [];
    if (whole.includes("TIME")) whole = whole.replace(/content-length: \d+/, length);
    const named = `${request} ${body?.slice(0, 80) ?? ""}\n`;
    expect(named + given).toBe(named + whole);
  }
}

describe("TorchServe's recorded answers", () => {
  const place = new Place();

  beforeAll(async () => {
    place.write("probe.py", probe);
    place.write(
      "config.properties",
      `${anywhere}job_queue_size=100\nmax_request_size=65536\nallowed_urls=http://127.0.0.1:1/.*\n`,
    );
    await place.archive("noop", "probe.py");
    await place.archive("probe", "probe.py");
    await place.archive("noop2", "probe.py", "--version", "2.0");
    await place.start("--model-store", "store", "--ts-config", "config.properties");
  });

  afterAll(() => place.close());

  it("come byte for byte at the management address", async () => {
    await replay(place.addresses.management!, management);
  });

  it("come byte for byte at the inference address", async () => {
    const { inference: at = "" } = place.addresses;
    // The last version is still being loaded.
    await expect.poll(() => ask(at, "GET /ping"), { timeout: 60_000 }).toContain('"Healthy"');
    await replay(at, inference);
  });

  it("refuse what the queue has no room for: of 110 requests, one runs and 100 wait", async () => {
    const { inference: at = "", management: manage = "" } = place.addresses;
    const until = join(place.folder, "all-have-come");
    const first = ask(at, "POST /predictions/noop", JSON.stringify({ until }), [asJson]);
    await expect.poll(() => existsSync(`${until}-begun`), { timeout: 20_000 }).toBe(true);
    let refused = 0;
    const next = async () => {
      const text = await ask(at, "POST /predictions/noop", "{}", [asJson]);
      if (!text.startsWith("HTTP/1.1 200")) refused++;
      return text;
    };
    const all = Promise.all([first, ...Array.from({ length: 109 }, next)]);
    await expect.poll(() => refused, { timeout: 20_000 }).toBe(9);
    const [{ jobQueueStatus }] = JSON.parse(bodyOf(await ask(manage, "GET /models/noop")));
    expect(jobQueueStatus).toEqual({ remainingCapacity: 0, pendingRequests: 100 });
    writeFileSync(until, "");
    const replies = await all;
    expect(replies.filter((text) => text.startsWith("HTTP/1.1 200"))).toHaveLength(101);
    const others = replies.filter((text) => !text.startsWith("HTTP/1.1 200")).map(masked);
    expect(others).toEqual(Array.from({ length: 9 }, () => noWorker("noop")));
  });

  it("say that a model has no worker, and describe the API without a token", async () => {
    const { inference: at = "", management: manage = "" } = place.addresses;
    const scaled = await ask(manage, "PUT /models/probe?min_worker=0&synchronous=true");
    expect(scaled).toContain("Workers scaled to 0");
    expect(masked(await ask(at, "POST /predictions/probe", "{}", [asJson]))).toBe(
      noWorker("probe"),
    );
    expect(masked(await ask(at, "GET /ping"))).toBe(done("Healthy"));
    for (const request of ["GET /api-description", "OPTIONS /", "OPTIONS /predictions/noop"]) {
      expect(await ask(at, request)).toContain('"openapi": "3.0.1"');
    }
    const gone = await ask(manage, "DELETE /models/probe");
    expect(gone).toContain('\\"probe\\" unregistered');
    expect(await ask(at, "POST /predictions/probe", "{}", [asJson])).toContain("Model not found");
  });
});
