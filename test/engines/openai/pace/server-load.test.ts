import { describe, expect, it } from "vitest";
import {
  loadOfMetrics,
  loadOfProperties,
  loadOfSlots,
  ServerQueue,
} from "../../../../src/engines/openai/pace/server-load.ts";

const vllm = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 120.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-8B"} 118.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 3.0
vllm:num_requests_waiting{engine="1",model_name="Qwen/Qwen3-8B"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 77.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.71
vllm:kv_cache_usage_perc{engine="1",model_name="Qwen/Qwen3-8B"} 0.83
vllm:prompt_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 1.2345e+06
`;

describe("loadOfMetrics", () => {
  it("reads vLLM's, all its engines together", () => {
    expect(loadOfMetrics(vllm)).toEqual({ running: 238, waiting: 3, cacheUse: 0.83 });
  });

  it("reads older vLLM's, SGLang's, llama-server's and TGI's", () => {
    const older = vllm.replaceAll("vllm:kv_cache", "vllm:gpu_cache");
    expect(loadOfMetrics(older)?.cacheUse).toBe(0.83);
    const sglang = [
      'sglang:num_running_reqs{model_name="m",tp_rank="0"} 31.0',
      'sglang:num_queue_reqs{model_name="m",tp_rank="0"} 4.0',
      'sglang:token_usage{model_name="m",tp_rank="0"} 0.28',
    ].join("\n");
    expect(loadOfMetrics(sglang)).toEqual({ running: 31, waiting: 4, cacheUse: 0.28 });
    const llama = "llamacpp:requests_processing 4\nllamacpp:requests_deferred 2\n";
    expect(loadOfMetrics(llama)).toEqual({ running: 4, waiting: 2 });
    expect(loadOfMetrics("tgi_queue_size 5\ntgi_batch_current_size 12\n")).toEqual({
      ...{ running: 12, waiting: 5 },
    });
  });

  it("reads nothing in the metrics of something else, nor in what is no number", () => {
    expect(loadOfMetrics("process_cpu_seconds_total 12\n")).toBeUndefined();
    expect(loadOfMetrics("<html>vllm:num_requests_running 1</html>")).toBeUndefined();
    const broken = vllm.replace("120.0", "NaN");
    expect(loadOfMetrics(broken)).toBeUndefined();
  });
});

describe("llama-server's pages", () => {
  it("say how many places there are, and how many are taken", () => {
    const slots = [
      { id: 0, n_ctx: 4096, is_processing: true, prompt: "" },
      { id: 1, n_ctx: 4096, is_processing: false, prompt: "" },
    ];
    expect(loadOfSlots(JSON.stringify(slots))).toEqual({ running: 1, slots: 2 });
    expect(loadOfProperties('{"total_slots": 8, "model_path": "m.gguf"}')).toEqual({
      ...{ running: 0, slots: 8 },
    });
  });

  it("are not taken for what they are not", () => {
    for (const text of ["", "[]", "{}", "[1]", '[{"name":"x"}]', "null"]) {
      expect(loadOfSlots(text)).toBeUndefined();
    }
    for (const text of ["", "[]", "{}", '{"total_slots":"8"}', '{"total_slots":0}']) {
      expect(loadOfProperties(text)).toBeUndefined();
    }
  });
});

/** A server of so many places; says what it tells when it has `inFlight`. */
const serverOf = (places: number) => (inFlight: number) => ({
  running: Math.min(places, inFlight),
  waiting: Math.max(0, inFlight - places),
});

describe("ServerQueue", () => {
  it("doubles while nothing waits, and then keeps a tenth of the places waiting", () => {
    const queue = new ServerQueue(16, 2048);
    const load = serverOf(200);
    const limits: number[] = [];
    for (let look = 0; look < 12; look++) {
      queue.note(load(queue.limit), queue.limit);
      limits.push(queue.limit);
    }
    expect(limits.slice(0, 4)).toEqual([32, 64, 128, 256]);
    expect(limits.at(-1)).toBeGreaterThanOrEqual(210);
    expect(limits.at(-1)).toBeLessThanOrEqual(241);
  });

  it("follows the places up and down", () => {
    const queue = new ServerQueue(110, 2048);
    for (let look = 0; look < 10; look++) queue.note(serverOf(20)(queue.limit), queue.limit);
    expect(queue.limit).toBeGreaterThanOrEqual(21);
    expect(queue.limit).toBeLessThanOrEqual(25);
    for (let look = 0; look < 10; look++) queue.note(serverOf(300)(queue.limit), queue.limit);
    expect(queue.limit).toBeGreaterThan(315);
  });

  it("does not rise where it is not what holds the caller, nor above its bound", () => {
    const queue = new ServerQueue(64, 100);
    queue.note({ running: 5, waiting: 0 }, 5);
    expect(queue.limit).toBe(64);
    for (let look = 0; look < 5; look++) queue.note({ running: 90, waiting: 0 }, queue.limit);
    expect(queue.limit).toBe(100);
  });

  it("adds only what the queue lacks where the server's cache is nearly full", () => {
    const queue = new ServerQueue(50, 1000);
    queue.note({ running: 50, waiting: 0, cacheUse: 0.95 }, 50);
    expect(queue.limit).toBe(55);
  });

  it("lets a server first take up what it was just sent", () => {
    const queue = new ServerQueue(100, 1000);
    queue.note({ running: 40, waiting: 60 }, 100);
    queue.note({ running: 70, waiting: 30 }, 100);
    expect(queue.limit).toBe(100);
    queue.note({ running: 70, waiting: 30 }, 100);
    expect(queue.limit).toBe(77);
  });

  it("takes back only its own share of a queue, and never all", () => {
    const queue = new ServerQueue(50, 1000);
    for (let look = 0; look < 2; look++) queue.note({ running: 100, waiting: 900 }, 50);
    expect(queue.limit).toBe(6);
    for (let look = 0; look < 9; look++) queue.note({ running: 100, waiting: 900 }, 1);
    expect(queue.limit).toBe(1);
  });

  it("sends a few more than there are places, where only those are told", () => {
    const queue = new ServerQueue(16, 1000);
    queue.note({ running: 0, slots: 4 }, 16);
    expect(queue.limit).toBe(6);
  });
});
