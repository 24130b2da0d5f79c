import { hostname } from "node:os";
import { Gauge, Registry } from "prom-client";
import { CounterTally } from "../tallies.ts";

/** A prediction under its model and the version that was asked for. */
export interface PredictionLabels {
  model: string;
  /** Undefined if the path has none. */
  version: string | undefined;
}

const ofModel = ["model_name", "model_version", "hostname"];
const ofHost = ["Level", "Hostname"];
const ofPrediction = ["ModelName", ...ofHost];

/** The figures that dashboards of TorchServe read, under their names. */
export class TorchServeMetrics {
  readonly #registry = new Registry();
  readonly #host = hostname();
  readonly #byStatus = new Map<number, CounterTally>();
  readonly #requests = this.#counter("ts_inference_requests_total", "Inference requests", ofModel);
  readonly #latency = this.#counter(
    "ts_inference_latency_microseconds",
    "Total time of answered inference requests",
    ofModel,
  );
  readonly #queueLatency = this.#counter(
    "ts_queue_latency_microseconds",
    "Total time of inference requests before their turn",
    ofModel,
  );
  readonly #queueTime: Gauge;
  readonly #predictionTime: Gauge;

  constructor() {
    for (const first of [2, 4, 5]) {
      const help = `HTTP replies with a status from ${first}00`;
      this.#byStatus.set(first, this.#counter(`Requests${first}XX`, help, ofHost));
    }
    this.#queueTime = new Gauge({
      ...{ name: "QueueTime", help: "Milliseconds of the last request before its turn" },
      ...{ labelNames: ofHost, registers: [this.#registry] },
    });
    this.#predictionTime = new Gauge({
      ...{
        name: "PredictionTime",
        help: "Milliseconds of the last answered request from its turn",
      },
      ...{ labelNames: ofPrediction, registers: [this.#registry] },
    });
  }

  /** @param names of the families to write; default: all. */
  async text(names: readonly string[] = []): Promise<string> {
    if (names.length === 0) return this.#registry.metrics();
    // The registry finds what every object has, such as `constructor`, by its names too.
    const all = new Set(this.#registry.getMetricsAsArray().map(({ name }) => name));
    const known = names.filter((name) => all.has(name));
    const texts = known.map((name) => this.#registry.getSingleMetricAsString(name));
    return `${(await Promise.all(texts)).join("\n\n")}\n`;
  }

  /** An HTTP request got its reply. */
  replied(status: number): void {
    this.#byStatus.get(Math.floor(status / 100))?.add(["Host", this.#host]);
  }

  asked(prediction: PredictionLabels): void {
    this.#requests.add(this.#labels(prediction));
  }

  /** @param waitMs time before its turn. */
  admitted(prediction: PredictionLabels, waitMs: number): void {
    this.#queueLatency.add(this.#labels(prediction), waitMs * 1000);
    this.#queueTime.set({ Level: "Host", Hostname: this.#host }, Math.round(waitMs));
  }

  /**
   * @param durationMs from the request to its answer.
   * @param modelMs from its turn on.
   */
  answered(prediction: PredictionLabels, durationMs: number, modelMs: number): void {
    this.#latency.add(this.#labels(prediction), durationMs * 1000);
    const labels = { ModelName: prediction.model, Level: "Model", Hostname: this.#host };
    this.#predictionTime.set(labels, modelMs);
  }

  #labels({ model, version = "default" }: PredictionLabels): string[] {
    return [model, version, this.#host];
  }

  #counter(name: string, help: string, labelNames: string[]): CounterTally {
    return new CounterTally(this.#registry, name, help, labelNames);
  }
}
