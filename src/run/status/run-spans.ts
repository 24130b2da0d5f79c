import type { Span, Telemetry, TraceContext } from "../../foundation/telemetry.ts";
import { attemptSpanId, type RunTraceContext } from "../execute/request-traces.ts";
import type { TaskOutcome } from "../worker/protocol.ts";
import type { RunEvent } from "./events.ts";
import type { RunResult } from "./run-result.ts";

const goodOutcomes: ReadonlySet<TaskOutcome> = new Set(["committed", "already-committed"]);

/**
 * The spans of a call that carries out a run: one of the call, and one of each attempt at a task.
 * They follow from its events, whichever process or machine the work is in.
 */
export class RunSpans {
  readonly #telemetry: Telemetry;
  readonly #run: Span;
  /** Of attempts that did not end, by task and worker. */
  readonly #attempts = new Map<string, { span: Span; worker: string }>();

  /** @param caller the span to which the call belongs. */
  constructor(telemetry: Telemetry, kind: string, caller: TraceContext | undefined) {
    this.#telemetry = telemetry;
    this.#run = telemetry.start("run", { parent: caller, attributes: { "sluice.call": kind } });
  }

  get context(): RunTraceContext {
    return { ...this.#run.context, hasTasks: this.#telemetry.takesIds };
  }

  hear(event: RunEvent & Timed): void {
    switch (event.type) {
      case "run-start":
        return this.#run.set({
          "sluice.run.id": event.runId,
          "sluice.run.tasks": event.tasks,
          "sluice.run.rows": event.rows,
          "sluice.run.resumed_rows": event.resumedRows,
          "sluice.run.generation": event.generation,
        });
      case "task-start":
        return this.#onStart(event);
      case "task-end":
        return this.#onEnd(event);
      case "worker-end":
        for (const [key, { span, worker }] of this.#attempts) {
          if (worker !== event.worker) continue;
          span.fail(event.error?.code ?? "ENGINE_DIED");
          this.#end(key, span, event);
        }
        return;
      default:
        return;
    }
  }

  /** @param ended its result, or the error that prevented the run's start. */
  end(ended: RunResult | undefined, thrown?: { code: string }): void {
    for (const [key, { span }] of this.#attempts) {
      span.fail("canceled");
      this.#end(key, span, {});
    }
    if (ended) {
      const { rows, prompt_tokens, total_tokens_generated, status } = ended.summary;
      this.#run.set({
        "sluice.run.status": status,
        "sluice.run.answered_rows": rows.answered,
        "sluice.run.failed_rows": rows.failed,
        "gen_ai.usage.input_tokens": prompt_tokens,
        "gen_ai.usage.output_tokens": total_tokens_generated,
      });
    }
    const error = thrown ?? ended?.error;
    if (error) this.#run.fail(error.code);
    this.#run.end();
  }

  #onStart(event: RunEvent & { type: "task-start" } & Timed): void {
    const { task, worker, attempt, rows, resumed } = event;
    const span = this.#telemetry.start("task", {
      parent: this.#run.context,
      startedAt: timeOf(event),
      ...(attempt !== undefined && { id: attemptSpanId(attempt) }),
      attributes: {
        "sluice.task.index": task,
        "sluice.task.attempt": attempt,
        "sluice.task.rows": rows,
        "sluice.task.resumed_rows": resumed,
        "sluice.worker.id": worker,
      },
    });
    this.#attempts.set(keyOf(event), { span, worker });
  }

  #onEnd(event: RunEvent & { type: "task-end" } & Timed): void {
    const key = keyOf(event);
    const span = this.#attempts.get(key)?.span;
    if (!span) return;
    const { outcome, done, failed, usage, error } = event;
    span.set({
      "sluice.task.outcome": outcome,
      "sluice.task.done_rows": done,
      "sluice.task.failed_rows": failed,
      "gen_ai.usage.input_tokens": usage.promptTokens,
      "gen_ai.usage.output_tokens": usage.completionTokens,
    });
    if (!goodOutcomes.has(outcome)) span.fail(error?.code ?? outcome);
    this.#end(key, span, event);
  }

  #end(key: string, span: Span, event: Timed): void {
    this.#attempts.delete(key);
    span.end(timeOf(event));
  }
}

/** Events that a worker elsewhere wrote to its file have the time at which they happened. */
type Timed = { time?: string };

function timeOf({ time }: Timed): number | undefined {
  return time === undefined ? undefined : Date.parse(time);
}

const keyOf = ({ task, worker }: { task: number; worker: string }) => `${task} ${worker}`;
