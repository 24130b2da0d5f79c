import { SluiceError } from "../../foundation/errors.ts";
import type { Environment } from "../../foundation/subprocess.ts";
import { runCommand } from "../../foundation/subprocess.ts";
import { firstWorking } from "../find-program.ts";
import type { Bind } from "./mount-namespace.ts";

/** Programs that run containers, in the order in which they are tried. */
const runtimes = ["podman", "docker"] as const;

/** Longest wait for a container to be removed. */
const removeTimeoutMs = 10_000;

/**
 * The program of this machine that runs containers: one that is there and works.
 *
 * @throws SluiceError `PROGRAM_MISSING`, with what each of them said.
 */
export async function findContainerRuntime(
  image: string,
  environment: Environment,
): Promise<string> {
  const found = await firstWorking(runtimes, environment);
  if ("program" in found) return found.program;
  throw new SluiceError("PROGRAM_MISSING", `image ${image} needs podman or docker`, {
    field: "model.image",
    hint:
      `start one of them (${found.said}), leave the image out to run programs on this ` +
      "machine, or take a backend that brings it, as kubernetes",
  });
}

/** A program in a container. */
export interface ContainerCall {
  runtime: string;
  image: string;
  /** Name of the container; one of the same task that is left is removed before. */
  name: string;
  /** In place of the image's own; empty for that. */
  cmds: readonly string[];
  args: readonly string[];
  /** Names of variables to pass. */
  variables: readonly string[];
  binds: readonly Bind[];
  /** GPUs by their numbers, or `all`; undefined for none. */
  devices?: string | undefined;
}

/**
 * The command line of a container. Variables are passed by name, so that no value is on the command
 * line, which others can see.
 */
export function containerCommand(call: ContainerCall): readonly string[] {
  const { runtime, image, name, cmds, args, variables, binds, devices } = call;
  const [entry, ...words] = cmds;
  return [
    ...[runtime, "run", "--rm", "--init", "--name", name],
    ...variables.flatMap((variable) => ["--env", variable]),
    ...binds.flatMap(({ path, place }) => ["--volume", `${place}:${path}`]),
    ...deviceWords(runtime, devices),
    ...(entry === undefined ? [] : ["--entrypoint", entry]),
    ...[image, ...words, ...args],
  ];
}

/** Each runtime names GPUs in its own way. */
function deviceWords(runtime: string, devices: string | undefined): string[] {
  if (devices === undefined) return [];
  if (runtime === "podman") {
    return devices.split(",").flatMap((device) => ["--device", `nvidia.com/gpu=${device}`]);
  }
  // The quotes are for docker, which reads a list of comma-separated pairs.
  return ["--gpus", devices === "all" ? "all" : `"device=${devices}"`];
}

/** Removes the container of a try that was cut off; an absent one is fine. */
export async function removeContainer(
  runtime: string,
  name: string,
  environment: Environment,
): Promise<void> {
  const options = { env: environment, timeoutMs: removeTimeoutMs };
  await runCommand(runtime, ["rm", "--force", name], options).catch(() => {});
}
