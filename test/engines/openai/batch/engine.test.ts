import { describe, expect, it, onTestFinished } from "vitest";
import type { Engine, EngineContext } from "../../../../src/engines/engine.ts";
import { openaiModel } from "../../../../src/engines/openai/options.ts";
import { openEngine } from "../../../../src/engines/registry.ts";
import type { JsonObject } from "../../../../src/foundation/json.ts";
import {
  answerTo,
  fault,
  type ProviderScript,
  RecordedProvider,
  saidOf,
} from "../../../recorded-provider.ts";
import { chatRequest, engineContext, rejectionOf } from "../../engine-context.ts";
import { MemoryRecords } from "./memory-records.ts";

const never = new AbortController().signal;

async function started(script: ProviderScript = {}): Promise<RecordedProvider> {
  const provider = await new RecordedProvider(script).start();
  onTestFinished(() => provider.stop());
  return provider;
}

async function opened(
  { baseUrl }: RecordedProvider,
  records = new MemoryRecords(),
  { batch = {}, ...more }: JsonObject & { batch?: JsonObject } = {},
  context: Partial<EngineContext> = {},
): Promise<Engine> {
  const settings = { maxBatchDelayMs: 20, pollMs: 10, maxPollMs: 20, ...batch };
  const options = openaiModel.parse({
    ...{ engine: "openai", name: "m", baseUrl, via: "batch", batch: settings, ...more },
  });
  const engine = await openEngine(options, engineContext({ batchRecords: records, ...context }));
  onTestFinished(() => engine.close());
  return engine;
}

/** Requests of rows, together. */
function askAll(engine: Engine, rows: readonly number[], signal: AbortSignal = never) {
  return Promise.allSettled(rows.map((row) => engine.infer(chatRequest(row), signal)));
}

const rowsUpTo = (count: number) => Array.from({ length: count }, (_, at) => at);

/** The answers by their texts, and the errors by their codes. */
function told(settled: PromiseSettledResult<{ answers: readonly { text: string }[] }>[]) {
  return settled.map((each) =>
    each.status === "fulfilled" ? each.value.answers[0]!.text : each.reason.code,
  );
}

const good = (row: number) => `re: What is said of ${row}?`;

describe("a provider's batches", () => {
  it("hold the requests of a task as one file, and each request gets its own answer", async () => {
    const provider = await started();
    const records = new MemoryRecords();
    const engine = await opened(provider, records);
    const settled = await askAll(engine, rowsUpTo(10));
    expect(told(settled)).toEqual(rowsUpTo(10).map(good));
    expect(provider.batches).toHaveLength(1);
    const [batch] = provider.batches;
    expect(batch!.metadata).toEqual({
      ...{ sluice_run: records.run, sluice_task: "0", sluice_batch: records.records[0]!.key },
    });
    expect(batch!.lines[3]).toMatchObject({
      ...{ method: "POST", url: "/v1/chat/completions" },
      body: { model: "m", messages: chatRequest(3).messages, max_tokens: 20, seed: 3 },
    });
    const [first] = settled;
    expect(first).toMatchObject({
      value: { usage: { promptTokens: 10, completionTokens: 5, cachedTokens: 0 } },
    });
  });

  it("are one for each task, and no more at once than the job allows", async () => {
    let atOnce = 0;
    const provider = await started({
      fault: () => {
        const open = provider.batches.filter(({ status }) => status !== "completed").length;
        atOnce = Math.max(atOnce, open);
        return undefined;
      },
    });
    const engine = await opened(provider, undefined, { batch: { maxBatches: 2 } });
    const rows = [0, 1, 1000, 1001, 2000, 3000, 4000];
    expect(told(await askAll(engine, rows))).toEqual(rows.map(good));
    expect(provider.batches.map(({ metadata }) => metadata.sluice_task).toSorted()).toEqual([
      ...["0", "1", "2", "3", "4"],
    ]);
    expect(atOnce).toBe(2);
  });

  it("are cut at the limits of a file, and a request over them fails alone", async () => {
    const provider = await started();
    const engine = await opened(provider, undefined, { batch: { maxRequests: 4 } });
    expect(told(await askAll(engine, rowsUpTo(10)))).toEqual(rowsUpTo(10).map(good));
    expect(provider.batches.map(({ lines }) => lines.length)).toEqual([4, 4, 2]);
    const small = await opened(provider, new MemoryRecords(), { batch: { maxFileBytes: 700 } });
    const long = { ...chatRequest(7), messages: [{ role: "user", content: "x".repeat(700) }] };
    const [one, other] = await Promise.allSettled([
      small.infer(long as ReturnType<typeof chatRequest>, never),
      askAll(small, rowsUpTo(4)),
    ]);
    expect(one).toMatchObject({ reason: { code: "REQUEST_REFUSED" } });
    expect(one).toMatchObject({ reason: { message: expect.stringContaining("may have 700") } });
    expect(told((other as PromiseFulfilledResult<never>).value)).toEqual(rowsUpTo(4).map(good));
    const sizes = provider.batches.slice(3).map(({ lines }) => lines.length);
    expect(sizes.toSorted()).toEqual([1, 3]);
  });

  it("ask for vectors as well", async () => {
    const vector = { data: [{ index: 0, embedding: [1, 2] }], usage: { prompt_tokens: 4 } };
    const provider = await started({ ending: () => ({ status: 200, body: vector }) });
    const engine = await opened(provider);
    const { parameters } = chatRequest(0);
    const request = { prompt: "a", embed: true, parameters, origin: chatRequest(0).origin! };
    const { answers, usage } = await engine.infer(request, never);
    expect(answers[0]!.value).toEqual([1, 2]);
    expect(usage.promptTokens).toBe(4);
    expect(provider.batches[0]!.object.endpoint).toBe("/v1/embeddings");
  });

  it("hold completions, and chats with images, but no transcripts", async () => {
    const choices = [{ text: "done", finish_reason: "stop" }];
    const provider = await started({
      ending: (line) =>
        line.body.messages ? answerTo("seen") : { status: 200, body: { choices, usage: {} } },
    });
    const engine = await opened(provider);
    const { parameters, messages } = chatRequest(0);
    const origin = { index: 0, promptName: "p" };
    const file = "data:image/png;base64,AAAA";
    const settled = await Promise.allSettled([
      engine.infer({ prompt: "Once", parameters, origin }, never),
      engine.infer({ messages: messages!, file, parameters, origin }, never),
      engine.infer({ file: "/sounds/a.wav", parameters, origin }, never),
    ]);
    expect(told(settled)).toEqual(["done", "seen", "REQUEST_REFUSED"]);
    expect(provider.batches.map(({ object }) => object.endpoint).toSorted()).toEqual([
      ...["/v1/chat/completions", "/v1/completions"],
    ]);
    const lines = JSON.stringify(provider.batches.map((batch) => batch.lines));
    expect(lines).toContain(file);
    expect(lines).toContain('"prompt":"Once"');
  });

  it("are told with the provider's states while they run", async () => {
    const provider = await started({ states: () => ["in_progress"] });
    const engine = await opened(provider);
    const asked = askAll(engine, rowsUpTo(4));
    await expect
      .poll(() => engine.batches)
      .toEqual([{ task: 0, state: "waiting", requests: 4, done: 0 }]);
    await expect
      .poll(() => engine.batches)
      .toEqual([
        {
          task: 0,
          batch: `batch_${"1".padStart(32, "0")}`,
          state: "in_progress",
          requests: 4,
          done: 2,
        },
      ]);
    provider.end(provider.batches[0]!, "completed");
    await asked;
    expect(engine.batches).toEqual([]);
  });
});

describe("lines of results", () => {
  it("become answers and errors by their status, in whichever order they come", async () => {
    const provider = await started({
      ending: (line) => {
        const at = Number(/\d+/.exec(saidOf(line)));
        const error = (message: string, code: string) => ({ error: { message, code } });
        if (at === 1) return { status: 400, body: error("bad value", "invalid_value") };
        if (at === 2) return { status: 400, body: error("too long", "context_length_exceeded") };
        if (at === 3) return { status: 429, body: error("slow down", "rate_limit_exceeded") };
        if (at === 4) return { status: 500, body: error("oops", "server_error") };
        if (at === 5) return "missing";
        if (at === 6) return { status: 400, error: { message: "no", code: "bad" } };
        if (at === 7) return { status: 200, body: { choices: [] } };
        return answerTo("fine");
      },
    });
    const engine = await opened(provider);
    const settled = await askAll(engine, rowsUpTo(9));
    expect(told(settled)).toEqual([
      ...["fine", "REQUEST_REFUSED", "PROMPT_TOO_LONG", "SERVER_ERROR", "SERVER_ERROR"],
      ...["BATCH_INCOMPLETE", "REQUEST_REFUSED", "ANSWER_EMPTY", "fine"],
    ]);
    const reasonOf = (at: number) => (settled[at] as PromiseRejectedResult).reason;
    expect(reasonOf(1).message).toContain("bad value");
    expect(reasonOf(6).message).toContain("no (bad)");
    const slow = { status: 429, message: "slow down", code: "rate_limit_exceeded" };
    expect(reasonOf(3).server).toEqual(slow);
    expect(reasonOf(6).server).toEqual({ status: 400, message: "no", code: "bad" });
  });

  it("of an expired batch are kept, and the others go into another batch when asked", async () => {
    const provider = await started({
      states: (number) => ["in_progress", number === 1 ? "expired" : "completed"],
      ending: (line, number) =>
        number === 1 && Number(/\d+/.exec(saidOf(line))) % 2 ? "expired" : answerTo("fine"),
    });
    const engine = await opened(provider);
    const settled = await askAll(engine, rowsUpTo(4));
    expect(told(settled)).toEqual(["fine", "BATCH_INCOMPLETE", "fine", "BATCH_INCOMPLETE"]);
    expect((settled[1] as PromiseRejectedResult).reason.message).toContain("batch_expired");
    expect(told(await askAll(engine, [1, 3]))).toEqual(["fine", "fine"]);
    expect(provider.batches.map(({ lines }) => lines.length)).toEqual([4, 2]);
  });

  it("are waited for if the batch is completed before its file is there", async () => {
    const provider = await started({ hidesOutput: 2 });
    const engine = await opened(provider);
    expect(told(await askAll(engine, rowsUpTo(2)))).toEqual(rowsUpTo(2).map(good));
    provider.script = { hidesOutput: 100 };
    expect(told(await askAll(engine, [7]))).toEqual(["BATCH_INCOMPLETE"]);
  });

  it("go into another batch if the provider has lost the file of results", async () => {
    const unknown = { status: 404, body: { error: { message: "No such File object" } } };
    const provider = await started({
      fault: (call) => (call === "GET /files/ID/content" ? unknown : undefined),
    });
    const engine = await opened(provider);
    expect(told(await askAll(engine, [0]))).toEqual(["BATCH_INCOMPLETE"]);
    provider.script = {};
    expect(told(await askAll(engine, [0]))).toEqual([good(0)]);
  });
});

describe("a batch that fails before any request is sent", () => {
  it("loses the lines with faults, and the others are sent", async () => {
    const message = "Missing required parameter: 'messages'.";
    const provider = await started({
      errors: (_, number) =>
        number > 1 ? [] : [2, 4].map((line) => fault("missing_required_parameter", message, line)),
    });
    const engine = await opened(provider);
    expect(told(await askAll(engine, rowsUpTo(5)))).toEqual([
      ...[good(0), "REQUEST_REFUSED", good(2), "REQUEST_REFUSED", good(4)],
    ]);
    expect(provider.batches.map(({ lines }) => lines.length)).toEqual([5, 3]);
  });

  it("ends the run if the provider does not know the model, or says nothing of lines", async () => {
    const provider = await started({
      errors: () => [fault("model_not_found", "The provided model 'm' is not supported.", 1)],
    });
    const engine = await opened(provider);
    expect(told(await askAll(engine, [0]))).toEqual(["MODEL_UNKNOWN"]);
    provider.script = { errors: () => [fault("billing_hard_limit_reached", "Pay first.")] };
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(error).toMatchObject({ code: "ENDPOINT_UNUSABLE" });
    expect(error!.message).toContain("Pay first.");
  });

  it("waits for room under the limit of enqueued tokens, in smaller batches", async () => {
    let most = 4;
    const lines: string[] = [];
    const provider = await started({
      errors: (found) =>
        found.length > most ? [fault("token_limit_exceeded", "Enqueued token limit reached.")] : [],
    });
    const logger = { log: (_: string, line: string) => void lines.push(line) };
    const engine = await opened(provider, undefined, {}, { logger });
    expect(told(await askAll(engine, rowsUpTo(10)))).toEqual(rowsUpTo(10).map(good));
    const asked = provider.batches.flatMap((each) => (each.object.errors ? [] : each.lines));
    expect(asked.map(({ custom_id }) => custom_id)).toHaveLength(10);
    expect(lines.join()).toContain("takes no more batches for now");
    most = 100;
  });

  it("is not created if the provider refuses it for lack of room, nor later", async () => {
    const message = "Enqueued token limit reached for m";
    const provider = await started({
      fault: (call, count) =>
        call === "POST /batches" && count <= 2
          ? { status: count === 1 ? 429 : 400, body: { error: { message } } }
          : undefined,
    });
    const records = new MemoryRecords();
    const engine = await opened(provider, records, { batch: { maxRequests: 8 } });
    expect(told(await askAll(engine, rowsUpTo(8)))).toEqual(rowsUpTo(8).map(good));
    // Halved after the first refusal; at the second one, the other half was there.
    expect(provider.batches.map(({ lines }) => lines.length)).toEqual([4, 4]);
    expect([...records.ids.values()].slice(0, 2)).toEqual([null, null]);
    const next = await opened(provider, records);
    expect(told(await askAll(next, [0, 7]))).toEqual([good(0), good(7)]);
    expect(provider.batches).toHaveLength(2);
  });

  it("is refused for lack of room not without a word, be it once", async () => {
    const provider = await started({
      fault: (call, count) =>
        call === "POST /batches" && count === 1
          ? { status: 400, body: { error: { message: "Enqueued token limit reached" } } }
          : undefined,
    });
    const lines: string[] = [];
    const logger = { log: (_: string, line: string) => void lines.push(line) };
    const engine = await opened(provider, undefined, {}, { logger });
    expect(told(await askAll(engine, [0, 1]))).toEqual([good(0), good(1)]);
    expect(lines.filter((line) => line.includes("takes no more batches for now"))).toHaveLength(1);
  });

  it("gives up after three batches whose file the provider cannot find", async () => {
    const provider = await started({
      errors: () => [fault("invalid_request", "Cannot find file file-x")],
    });
    const engine = await opened(provider);
    expect(told(await askAll(engine, [0, 1]))).toEqual(["ENDPOINT_UNUSABLE", "ENDPOINT_UNUSABLE"]);
    expect(provider.batches).toHaveLength(3);
  });
});

describe("a batch is created once", () => {
  it("though the reply to its creation is lost, among many others", async () => {
    const provider = await started({
      fault: (call, count) =>
        call === "POST /batches" && count > 8 && count < 11 ? "lost" : undefined,
    });
    const others = await opened(provider);
    await askAll(
      others,
      rowsUpTo(8).map((task) => task * 1000),
    );
    expect(provider.batches).toHaveLength(8);
    const engine = await opened(provider, new MemoryRecords());
    expect(told(await askAll(engine, [1, 2]))).toEqual([good(1), good(2)]);
    expect(provider.batches).toHaveLength(9);
  });

  it("though the provider keeps no metadata, and lists the oldest batches first", async () => {
    const provider = await started({
      isSimple: true,
      fault: (call, count) => (call === "POST /batches" && count === 9 ? "lost" : undefined),
    });
    const tasks = rowsUpTo(9).map((task) => task * 1000);
    const engine = await opened(provider);
    expect(told(await askAll(engine, tasks))).toEqual(tasks.map(good));
    expect(provider.batches).toHaveLength(9);
  });

  it("though every call fails now and then", async () => {
    const failures = [
      { status: 500 },
      { status: 429, headers: { "retry-after-ms": "5" } },
      "lost",
      { status: 503, headers: { "retry-after-ms": "5" } },
      "cut",
    ] as const;
    const provider = await started({
      fault: (call, count) => (call.includes("models") ? undefined : failures[(count - 1) % 7]),
    });
    const random = { next: () => 0.02 };
    const engine = await opened(provider, undefined, {}, { random });
    expect(told(await askAll(engine, rowsUpTo(6)))).toEqual(rowsUpTo(6).map(good));
    expect(provider.batches).toHaveLength(1);
  });

  it("though the process is killed between its creation and the note of its id", async () => {
    const provider = await started({ states: () => ["in_progress"] });
    const records = new MemoryRecords();
    records.beforeId = () => {
      throw new Error("killed");
    };
    const first = await opened(provider, records);
    expect(told(await askAll(first, rowsUpTo(3)))).toEqual(["INTERNAL", "INTERNAL", "INTERNAL"]);
    records.beforeId = () => {};
    const second = await opened(provider, records);
    const asked = askAll(second, rowsUpTo(3));
    await expect.poll(() => second.batches?.[0]?.batch).toBe(provider.batches[0]!.id);
    await second.close();
    expect(told(await asked)).toEqual(["ENGINE_DIED", "ENGINE_DIED", "ENGINE_DIED"]);
    provider.end(provider.batches[0]!, "completed");
    const third = await opened(provider, records);
    // Row 1 was answered before, and is not asked again.
    expect(told(await askAll(third, [0, 2]))).toEqual([good(0), good(2)]);
    expect(provider.batches).toHaveLength(1);
  });

  it("though two processes are at the same task", async () => {
    const provider = await started();
    const records = new MemoryRecords();
    const both = await Promise.all([opened(provider, records), opened(provider, records)]);
    const settled = await Promise.all(both.map((engine) => askAll(engine, rowsUpTo(3))));
    for (const each of settled) expect(told(each)).toEqual(rowsUpTo(3).map(good));
    const counted = provider.batches.filter(({ status }) => status !== "cancelled");
    expect(counted).toHaveLength(1);
    expect(records.records).toHaveLength(1);
  });

  it("though its requests are given up and asked again by the same process", async () => {
    const provider = await started({ states: () => ["in_progress"] });
    const engine = await opened(provider);
    const stop = new AbortController();
    const asked = askAll(engine, rowsUpTo(3), stop.signal);
    await expect.poll(() => provider.batches[0]?.status).toBe("in_progress");
    stop.abort(new Error("left"));
    await asked;
    const again = askAll(engine, rowsUpTo(3));
    await expect.poll(() => engine.batches?.[0]?.state).toBe("in_progress");
    provider.end(provider.batches[0]!, "completed");
    expect(told(await again)).toEqual(rowsUpTo(3).map(good));
    expect(provider.batches).toHaveLength(1);
  });

  it("and a second one of the same file is cancelled", async () => {
    const provider = await started({
      fault: (call, count) => {
        // The list does not have the first one yet when it is asked for it.
        if (call === "GET /batches" && count <= 2) {
          return { status: 200, body: { object: "list", data: [], has_more: false } };
        }
        return call === "POST /batches" && count === 1 ? "lost" : undefined;
      },
    });
    const engine = await opened(provider);
    expect(told(await askAll(engine, rowsUpTo(3)))).toEqual(rowsUpTo(3).map(good));
    expect(provider.batches.map(({ status }) => status)).toEqual(["cancelled", "completed"]);
  });

  it("and its requests go into another one only if it was cancelled before", async () => {
    const provider = await started({ states: () => ["in_progress"] });
    const records = new MemoryRecords();
    const engine = await opened(provider, records);
    const asked = askAll(engine, rowsUpTo(2));
    await expect.poll(() => provider.batches[0]?.status).toBe("in_progress");
    provider.end(provider.batches[0]!, "cancelled");
    expect(told(await asked)).toEqual(["BATCH_STOPPED", "BATCH_STOPPED"]);
    provider.script = {};
    const next = await opened(provider, records);
    expect(told(await askAll(next, rowsUpTo(2)))).toEqual(rowsUpTo(2).map(good));
    expect(provider.batches).toHaveLength(2);
  });

  it("and a batch that the provider does not know any more stops the run", async () => {
    const provider = await started();
    const records = new MemoryRecords();
    await askAll(await opened(provider, records), rowsUpTo(2));
    provider.batches.length = 0;
    const error = await rejectionOf((await opened(provider, records)).infer(chatRequest(0), never));
    expect(error).toMatchObject({ code: "BATCH_LOST" });
    expect(error!.hint).toContain("remove out/_sluice/provider-batches/0/");
  });
});

describe("an engine of batches", () => {
  it("is only for runs", async () => {
    const options = openaiModel.parse({ engine: "openai", name: "m", via: "batch" });
    const error = await rejectionOf(openEngine(options, engineContext()));
    expect(error).toMatchObject({ code: "UNSUPPORTED", place: { field: "model.via" } });
  });

  it("forgets requests that nobody waits for any more", async () => {
    const provider = await started();
    const engine = await opened(provider);
    const stop = new AbortController();
    const asked = askAll(engine, [0, 1], stop.signal);
    stop.abort(new Error("left"));
    expect((await asked).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(told(await askAll(engine, [2]))).toEqual([good(2)]);
    expect(provider.batches.map(({ lines }) => lines.length)).toEqual([1]);
  });

  it("reports a provider that is gone, a refused key and a refused request", async () => {
    const provider = await started();
    const model = { maxEndpointDownMs: 100 };
    provider.script = { fault: () => "cut" };
    expect(told(await askAll(await opened(provider, undefined, model), [0]))).toEqual([
      "ENDPOINT_DOWN",
    ]);
    provider.script = { fault: () => ({ status: 401, body: { error: { message: "bad key" } } }) };
    expect(told(await askAll(await opened(provider), [0]))).toEqual(["AUTHENTICATION_FAILED"]);
    provider.script = { fault: () => ({ status: 400, body: { error: { message: "no jsonl" } } }) };
    const error = await rejectionOf((await opened(provider)).infer(chatRequest(0), never));
    expect(error).toMatchObject({ code: "ENDPOINT_UNUSABLE" });
    expect(error!.message).toContain("no jsonl");
  });
});
