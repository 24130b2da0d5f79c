import { z } from "zod";
import { atLeastOne, setting } from "../../foundation/setting.ts";

const rate = z.number().min(0).max(1);

/** How the fake engine can fail; the last three end the engine or the worker, or never return. */
export const fakeFailureKinds = [
  "retryable",
  "refused",
  "invalid",
  "fatal-run",
  "kill-engine",
  "kill-worker",
  "stall-worker",
] as const;

/** `model` of a job with engine `fake`. */
export const fakeModel = z.strictObject({
  engine: z.literal("fake").describe("The engine that answers requests"),
  name: z.string().default("fake").describe("Name of the model, for reports"),
  latencyMs: setting(
    "operation",
    "Duration of an answer: a number, or a distribution",
    z
      .union([
        z.number().min(0),
        z
          .strictObject({
            min: z.number().min(0).describe("Least milliseconds"),
            max: z.number().min(0).describe("Most milliseconds"),
          })
          .describe("Even"),
        z
          .strictObject({ mean: z.number().min(0).describe("Milliseconds on average") })
          .describe("Exponential"),
      ])
      .default(0),
  ),
  capacity: setting("operation", "Requests it holds at once", atLeastOne.max(65_536).default(64)),
  failureRate: setting("operation", "Share of requests that fail, retryable", rate.default(0)),
  failures: setting(
    "operation",
    "Failures by row index or by share of rows",
    z
      .array(
        z.strictObject({
          row: z.int().min(0).optional().describe("Index of the row that fails"),
          rate: rate.optional().describe("Share of rows that fail"),
          kind: z.enum(fakeFailureKinds).describe("How it fails"),
        }),
      )
      .default([]),
  ),
  countFile: setting("operation", "File that gets a line for each request", z.string().optional()),
  seed: z.int().default(0).describe("Answers follow from it and from the request"),
});

export type FakeModelOptions = z.output<typeof fakeModel>;
