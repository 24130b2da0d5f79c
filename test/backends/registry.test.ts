import { describe, expect, it } from "vitest";
import { openBackends } from "../../src/backends/registry.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { jobSchema } from "../../src/run/job/schema.ts";
import { engineContext } from "../engines/engine-context.ts";

const backends = () =>
  openBackends({
    executable: "node",
    environment: {},
    logger: silentLogger,
    engineContext: async () => ({ ...engineContext(), workingDirectory: "/" }),
  });

const given = { input: "/in.jsonl", model: { engine: "fake" as const }, prompt: "p" };

describe("openBackends", () => {
  it("opens each backend once, by the name that a job has for it", () => {
    const opened = backends();
    const job = jobSchema.parse(given);
    expect(opened.of(job).name).toBe("local");
    expect(opened.of(job)).toBe(opened.of({ backend: "local" }));
  });

  it("refuses one that a stored job names and that there is not", () => {
    for (const backend of ["lokal", "toString"]) {
      expect(() => backends().of({ backend })).toThrow(
        expect.objectContaining({ code: "JOB_INVALID", place: { field: "backend" } }),
      );
    }
    expect(() => backends().of({ backend: "lokal" })).toThrow(
      'must be one of local, ray, slurm, kubernetes, sky, code-engine, not "lokal"; did you mean local?',
    );
  });

  it("prepares a job with the variables of its workers", async () => {
    const seen: unknown[] = [];
    const opened = openBackends({
      executable: "node",
      environment: { OPENAI_API_KEY: "of the caller" },
      logger: silentLogger,
      engineContext: async (environment) => {
        seen.push(environment);
        return { ...engineContext({ environment }), workingDirectory: "/" };
      },
    });
    const job = jobSchema.parse({ ...given, env: { OPENAI_API_KEY: "of the job" } });
    const preparation = { install: false, logger: silentLogger, signal: AbortSignal.abort() };
    await opened.of(job).prepare(job, preparation);
    expect(seen).toEqual([{ OPENAI_API_KEY: "of the job" }]);
  });
});
