import type { Command } from "commander";
import { backendContext } from "../../api/backend-context.ts";
import { openBackends } from "../../backends/registry.ts";
import { leadingCoordinator } from "../../run/coordinate/coordinator.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { openProgress } from "../../terminal/progress.ts";
import type { CliIo } from "../io.ts";
import {
  type CallFlags,
  endCall,
  interruptionOf,
  startOptions,
  withCallFlags,
} from "../run-call.ts";
import { openTarget, withOwnStores, withRun } from "../run-target.ts";
import { untilSignal } from "../until-signal.ts";

/** `sluice resume DIR`: continues the run in a directory, by its own job. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  withCallFlags(command, "change a setting, such as budget.usd=5 or workers.max=2").action(
    (run: string, options: CallFlags) => resume(run, options, io),
  );
}

async function resume(run: string, options: CallFlags, io: CliIo): Promise<void> {
  const progress = openProgress(options, io);
  const { location, dependencies, storage, plan } = await withOwnStores(
    await openTarget(run, io, progress.logger),
    io,
  );
  const backends = openBackends(backendContext(io, progress.logger));
  try {
    // The last call may have used other settings than the plan.
    const stored = (await leadingCoordinator(storage))?.job ?? plan.job;
    const isChanged = options.set?.some((set) => set.startsWith("backend="));
    if (!isChanged) backends.of(stored).startAhead(stored);
    const [{ startRun }, { changedJob }] = await Promise.all([
      import("../../api/start-run.ts"),
      import("../../run/job/change.ts"),
    ]);
    const change = async (stored: JobSpec) =>
      options.set ? await changedJob(stored, options.set) : stored;
    const backend = isChanged ? undefined : backends.of(stored);
    const { scheduled, delegate, name = "" } = backend ?? {};
    const ended = await untilSignal(
      io,
      progress.logger,
      (signal, listen) => {
        if (delegate) listen();
        const call = { ...options, backendOf: backends.of, dependencies, signal };
        const start = { kind: "resume", location, change } as const;
        return startRun(start, startOptions(call, progress, listen));
      },
      scheduled && interruptionOf({ name }, progress.logger),
    );
    progress.close();
    await endCall(ended, dependencies, options, io);
  } finally {
    progress.close();
    backends.close();
  }
}
