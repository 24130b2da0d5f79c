import type { Command } from "commander";
import { leadingCoordinator } from "../../run/coordinate/coordinator.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { CliIo } from "../io.ts";
import {
  type CallFlags,
  endCall,
  interruptionOf,
  type OpenedCall,
  startOptions,
  withCallFlags,
  withOpenedRun,
} from "../run-call.ts";
import { withRun } from "../run-target.ts";
import { untilSignal } from "../until-signal.ts";

/** `sluice resume DIR`: continues the run in a directory, by its own job. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  withCallFlags(command, "change a setting, such as budget.usd=5 or workers.max=2").action(
    (run: string, options: CallFlags) =>
      withOpenedRun(run, options, io, (call) => resume(call, options, io)),
  );
}

async function resume(
  { target, progress, backends }: OpenedCall,
  options: CallFlags,
  io: CliIo,
): Promise<void> {
  const { location, dependencies, storage, plan } = target;
  // The last call may have used other settings than the plan.
  const stored = (await leadingCoordinator(storage))?.job ?? plan.job;
  const isChanged = options.set?.some((set) => set.startsWith("backend="));
  if (!isChanged) backends.of(stored).startAhead(stored);
  const [{ startRun }, { changedJob }] = await Promise.all([
    import("../../api/start-run.ts"),
    import("../../run/job/change.ts"),
  ]);
  const { set } = options;
  const { workingDirectory, process } = io;
  const change = async (stored: JobSpec) =>
    set ? await changedJob(stored, set, workingDirectory, process.userDirectory) : stored;
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
  await endCall(ended, target, options, io);
}
