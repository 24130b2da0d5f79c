import { insideImageVariable } from "../engine.ts";
import type { EngineDescription } from "../engine-description.ts";
import { fullSupport } from "../parameter-support.ts";
import { refuseSecrets } from "../secrets.ts";
import type { ProgramModelOptions } from "./options.ts";

export const programDescription: EngineDescription<ProgramModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openProgram(options, context),
  // A program draws no answers: its row is everything that it is told.
  support: () => fullSupport,
  keepsPrefixes: false,
  takesRows: true,
  takesAhead: false,
  executes: ({ command }) => [
    command.length === 0 ? "the commands of the rows" : command.join(" "),
  ],
  devices: ({ gpus }) => (gpus ? {} : undefined),
  sharedAmong: ({ instances, cpu, ...options }, _workers, cores) => ({
    ...options,
    ...(cpu !== undefined && { cpu }),
    instances:
      cpu === undefined || cores === undefined
        ? instances
        : Math.max(1, Math.min(instances, Math.floor(cores / cpu))),
  }),
  withAbsolutePaths: ({ workingDirectory, mounts, ...options }, absolute) => ({
    ...options,
    workingDirectory:
      workingDirectory === undefined
        ? absolute(".", "model", "command")
        : absolute(workingDirectory, "model", "workingDirectory"),
    mounts: mounts.map((mount, at) => ({
      ...mount,
      location: absolute(mount.location, "model", "mounts", String(at), "location"),
    })),
  }),
  // A machine that cannot run the image is found before anything is planned.
  async check({ image }, { environment }) {
    if (image === undefined || environment[insideImageVariable] === image) return;
    const { findContainerRuntime } = await import("./container.ts");
    await findContainerRuntime(image, environment);
  },
  assertEnvironment({ command, args }, environment) {
    refuseSecrets(command, "model.command", environment);
    refuseSecrets(args, "model.args", environment);
  },
};
