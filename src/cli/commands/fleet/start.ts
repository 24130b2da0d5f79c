import { spawn } from "node:child_process";
import { mkdirSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { backendContext } from "../../../api/backend-context.ts";
import { homeDirectory } from "../../../api/home.ts";
import { openBackends } from "../../../backends/registry.ts";
import { withStoreErrors } from "../../../data/storage/local-errors.ts";
import { entryCommand } from "../../../entry.ts";
import type { Logger } from "../../../foundation/logger.ts";
import type { RunDependencies } from "../../../run/dependencies.ts";
import type { Fleet, FleetBatch } from "../../../run/fleet/fleet.ts";
import type { JobSpec } from "../../../run/job/schema.ts";
import type { CliIo } from "../../io.ts";
import { rootOf, type TargetFlags } from "./target.ts";

/**
 * Plans the run of a batch; its backend is asked first whether it can carry it out.
 *
 * @param isLast false if this process carries the run out as well, and says then what is missing.
 */
export function planner(
  io: CliIo,
  dependencies: RunDependencies,
  logger: Logger,
  isLast = true,
): (job: JobSpec) => Promise<void> {
  return async (job) => {
    const { openOrPlan } = await import("../../../run/plan/open-run.ts");
    const backends = openBackends(backendContext(io, logger));
    const { signal } = new AbortController();
    try {
      const backend = backends.of(job);
      await openOrPlan(job, dependencies, {
        ...{ overwrite: false, fork: false },
        workersFor: async (spec, rows) => {
          const { workers, notices } = await backend.workersFor(spec, rows);
          if (isLast) for (const notice of notices) logger.log("info", notice);
          return workers;
        },
        beforePlan: (spec) => backend.check(spec, { install: true, logger, signal }),
        onEvent: (event) => {
          if (event.type === "notice") logger.log("info", event.message);
        },
      });
    } finally {
      backends.close();
    }
  };
}

/**
 * Starts a process that carries out a batch and goes on when this one has ended. What it says is in
 * a file below `SLUICE_HOME`.
 */
export async function startDriver(
  { record }: Fleet,
  { number }: FleetBatch,
  flags: TargetFlags,
  io: CliIo,
): Promise<void> {
  const log = driverLog(record.id, io);
  const output = await withStoreErrors(log, async () => {
    mkdirSync(dirname(log), { recursive: true });
    return openSync(log, "a");
  });
  const [executable, ...main] = entryCommand("cli/main", io.process.executable);
  const target = ["--fleets", rootOf(flags, io), "--id", record.id, "--only", String(number)];
  const driver = spawn(executable!, [...main, "fleet", "resume", ...target], {
    cwd: io.workingDirectory,
    env: io.environment as NodeJS.ProcessEnv,
    stdio: ["ignore", output, output],
    detached: true,
  });
  driver.unref();
}

/** What the process says that carries a fleet out. */
export function driverLog(id: string, io: CliIo): string {
  return join(homeDirectory(io), "fleets", `${id}.log`);
}
