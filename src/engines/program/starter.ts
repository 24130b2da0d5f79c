import { stat } from "node:fs/promises";
import type { Json } from "../../foundation/json.ts";
import { type LeashedProcess, startLeashed } from "../../foundation/leashed-process.ts";
import { assignedDevices } from "../devices.ts";
import { type EngineContext, insideImageVariable } from "../engine.ts";
import { containerCommand, findContainerRuntime, removeContainer } from "./container.ts";
import { type LinkedMounts, openLinkedMounts } from "./linked-mounts.ts";
import { type Bind, type MountNamespace, openMountNamespace } from "./mount-namespace.ts";
import type { ProgramModelOptions } from "./options.ts";
import { type ProgramTask, taskVariables } from "./task.ts";

/** A program that runs, on a leash. */
export type StartedProgram = Pick<
  LeashedProcess,
  "stdout" | "stderr" | "ended" | "hasEnded" | "terminate" | "kill"
>;

/** Starts the programs of tasks: on this machine, in a mount namespace, or in a container. */
export interface ProgramStarter {
  /** How it does that, for the manifest. */
  readonly choices: Readonly<Record<string, Json>>;
  start(task: ProgramTask, mounts: readonly Bind[]): Promise<StartedProgram>;
  close(): Promise<void>;
}

/**
 * @param run a text that no other run has: containers of one machine share their names.
 * @throws SluiceError `PROGRAM_MISSING` if nothing here runs the image.
 */
export async function openStarter(
  options: ProgramModelOptions,
  context: EngineContext,
  run: string,
): Promise<ProgramStarter> {
  const { image, mounts, instances } = options;
  const { environment, logger } = context;
  const isInside = image !== undefined && environment[insideImageVariable] === image;
  if (image !== undefined && !isInside) {
    const runtime = await findContainerRuntime(image, environment);
    return containerStarter({ ...options, image }, context, runtime, run);
  }
  const directory = await directoryHere(options, context);
  if (mounts.length === 0) return plainStarter(options, context, { directory });
  const paths = mounts.map(({ path }) => path);
  const namespace = await openMountNamespace(paths, environment);
  if (!("refused" in namespace)) return plainStarter(options, context, { directory, namespace });
  // Nobody else lives in the image.
  const links = isInside && instances === 1 ? await openLinkedMounts(paths) : undefined;
  if (links) return plainStarter(options, context, { directory, links });
  const names = mounts.map(({ path }) => `$${mountVariable(path)}`).join(", ");
  const detail = `mounts are not at their paths on this machine (${namespace.refused})`;
  logger.log("warn", `${detail}: programs find them at ${names}`);
  return plainStarter(options, context, { directory });
}

/** The working directory of programs, or that of their worker on a machine that lacks it. */
async function directoryHere(
  { workingDirectory = "." }: ProgramModelOptions,
  { logger }: EngineContext,
): Promise<string> {
  const facts = await stat(workingDirectory).catch(() => undefined);
  if (facts?.isDirectory()) return workingDirectory;
  const detail = `there is no folder ${workingDirectory} on this machine`;
  logger.log("warn", `${detail}: programs start where their worker did`);
  return ".";
}

function plainStarter(
  options: ProgramModelOptions,
  { clock, environment }: EngineContext,
  here: { directory: string; namespace?: MountNamespace; links?: LinkedMounts },
): ProgramStarter {
  const { directory, namespace, links } = here;
  const isMounted = (namespace ?? links) !== undefined;
  const places: Record<string, Json> = { mounts: isMounted ? "paths" : "variables" };
  return {
    choices: options.mounts.length === 0 ? {} : places,
    async start(task, mounts) {
      const words = [...task.cmds, ...task.args];
      await links?.show(mounts);
      const isBound = namespace && mounts.length > 0;
      const [command = "", ...args] = isBound ? namespace.command(words, directory, mounts) : words;
      const program = startLeashed(command, args, {
        environment: {
          ...environment,
          ...taskVariables(task, options),
          ...mountVariables(mounts, isMounted),
        },
        workingDirectory: directory,
        clock,
      });
      program.stdin.end();
      return program;
    },
    close: async () => await (namespace ?? links)?.close(),
  };
}

function containerStarter(
  options: ProgramModelOptions & { image: string },
  { clock, environment }: EngineContext,
  runtime: string,
  run: string,
): ProgramStarter {
  const { image, variables } = options;
  const devices = assignedDevices(environment)?.replace(/^cuda:/, "");
  return {
    choices: { container: runtime },
    async start(task, mounts) {
      const name = `sluice-${run}-${task.row}`;
      const own = { ...taskVariables(task, options), ...mountVariables(mounts, true) };
      const call = { runtime, image, name, cmds: task.cmds, args: task.args, binds: mounts };
      const passed = [...variables, ...Object.keys(own)];
      const [command, ...args] = containerCommand({ ...call, variables: passed, devices });
      // That of a worker that was lost may still run.
      const remove = () => removeContainer(runtime, name, environment);
      await remove();
      const program = startLeashed(command!, args, {
        environment: { ...environment, ...own },
        clock,
      });
      program.stdin.end();
      let hasEnded = false;
      void program.ended.then(({ code }) => {
        hasEnded = code !== null;
      });
      const kill = () => {
        // The container is not a child of the program that started it.
        if (hasEnded) program.kill();
        else void remove().then(() => program.kill());
      };
      return { ...program, kill };
    },
    close: async () => {},
  };
}

function mountVariables(mounts: readonly Bind[], isMounted: boolean): Record<string, string> {
  return Object.fromEntries(
    mounts.map(({ path, place }) => [mountVariable(path), isMounted ? path : place]),
  );
}

/** The variable with the place of a mount: `SLUICE_MOUNT_INPUT` for `/input`. */
function mountVariable(path: string): string {
  return `SLUICE_MOUNT${path.replaceAll(/[^A-Za-z0-9]+/g, "_").toUpperCase()}`;
}
