import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { DeviceUse } from "../engines/devices.ts";
import type { DeviceFigures } from "./device-figures.ts";
import type { RequestFacts } from "./listener.ts";
import { priorities } from "./model-queue.ts";
import type { Models } from "./models.ts";
import type { AnswerFacts, ModelObserver } from "./served-model.ts";
import { CounterTally, HistogramTally } from "./tallies.ts";

/** Bounds of histograms, in seconds. */
const requestSeconds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const tokenSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const batchRequests = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/** The figures of a server in the text format of Prometheus; all durations are in seconds. */
export class Metrics implements ModelObserver {
  readonly #registry = new Registry();
  readonly #requests: CounterTally;
  readonly #seconds: HistogramTally;
  readonly #queueSeconds: HistogramTally;
  readonly #modelSeconds: HistogramTally;
  readonly #firstTokenSeconds: HistogramTally;
  readonly #tokenSeconds: HistogramTally;
  readonly #batchRequests: HistogramTally;
  readonly #tokens: CounterTally;
  readonly #errors: CounterTally;

  constructor(models: Models, devices: Pick<DeviceFigures, "latest">) {
    collectDefaultMetrics({ register: this.#registry });
    const histogram = (name: string, help: string, labelNames: string[], bounds: number[]) =>
      new HistogramTally(this.#registry, name, help, labelNames, bounds);
    const counter = (name: string, help: string, labelNames: string[]) =>
      new CounterTally(this.#registry, name, help, labelNames);
    this.#requests = counter("sluice_http_requests_total", "Answered HTTP requests", [
      "method",
      "route",
      "status",
    ]);
    this.#seconds = histogram(
      "sluice_http_request_seconds",
      "From the request to the end of its answer",
      ["route"],
      requestSeconds,
    );
    this.#queueSeconds = histogram(
      "sluice_queue_seconds",
      "Time of a request before its turn",
      ["model", "priority"],
      requestSeconds,
    );
    this.#modelSeconds = histogram(
      "sluice_model_seconds",
      "Time of a request in its model",
      ["model"],
      requestSeconds,
    );
    this.#firstTokenSeconds = histogram(
      "sluice_first_token_seconds",
      "Time from its turn to the first token",
      ["model"],
      requestSeconds,
    );
    this.#tokenSeconds = histogram(
      "sluice_output_token_seconds",
      "Time of each further token of an answer",
      ["model"],
      tokenSeconds,
    );
    this.#batchRequests = histogram(
      "sluice_batch_requests",
      "Requests of a batch that the engine formed",
      ["model"],
      batchRequests,
    );
    this.#tokens = counter("sluice_tokens_total", "Tokens", ["model", "kind"]);
    this.#errors = counter("sluice_errors_total", "Failed requests to models", ["model", "code"]);
    this.#addGauges(models);
    this.#addDevices(devices);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  requestAnswered({ method, route, status, durationMs }: RequestFacts): void {
    this.#requests.add([method, route, String(status)]);
    this.#seconds.observe([route], durationMs / 1000);
  }

  admitted(model: string, priority: string, waitMs: number): void {
    this.#queueSeconds.observe([model, priority], waitMs / 1000);
  }

  answered(model: string, { usage, durationMs, firstPieceMs }: AnswerFacts): void {
    this.#modelSeconds.observe([model], durationMs / 1000);
    this.#tokens.add([model, "prompt"], usage.promptTokens);
    this.#tokens.add([model, "cached"], usage.cachedTokens);
    this.#tokens.add([model, "completion"], usage.completionTokens);
    if (firstPieceMs === undefined) return;
    this.#firstTokenSeconds.observe([model], firstPieceMs / 1000);
    const further = usage.completionTokens - 1;
    if (further < 1) return;
    const perTokenMs = (durationMs - firstPieceMs) / further;
    this.#tokenSeconds.observe([model], perTokenMs / 1000);
  }

  failed(model: string, code: string): void {
    this.#errors.add([model, code]);
  }

  batchFormed(model: string, requests: number): void {
    this.#batchRequests.observe([model], requests);
  }

  /** Read when they are asked for. */
  #addGauges(models: Models): void {
    const registers = [this.#registry];
    new Gauge({
      ...{ name: "sluice_requests_in_flight", help: "Requests in work", registers },
      labelNames: ["model"],
      collect() {
        this.reset();
        for (const { name, queue } of models.all()) {
          this.set({ model: name }, queue.inFlight);
        }
      },
    });
    new Gauge({
      ...{ name: "sluice_requests_waiting", help: "Requests before their turn", registers },
      labelNames: ["model", "priority"],
      collect() {
        this.reset();
        for (const { name, queue } of models.all()) {
          for (const priority of priorities) {
            this.set({ model: name, priority }, queue.waiting(priority));
          }
        }
      },
    });
  }

  #addDevices(devices: Pick<DeviceFigures, "latest">): void {
    const gauge = (name: string, help: string, figure: Exclude<keyof DeviceUse, "id">) =>
      new Gauge({
        ...{ name, help, registers: [this.#registry], labelNames: ["device"] },
        collect() {
          this.reset();
          for (const { id, [figure]: value } of devices.latest) {
            if (value !== undefined) this.set({ device: id }, value);
          }
        },
      });
    gauge("sluice_gpu_memory_used_bytes", "Used memory of a GPU", "usedBytes");
    gauge("sluice_gpu_memory_total_bytes", "Memory of a GPU", "totalBytes");
    gauge("sluice_gpu_utilization", "Share of time in which a GPU computes", "utilization");
  }
}
