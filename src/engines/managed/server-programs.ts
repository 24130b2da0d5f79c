import { SluiceError } from "../../foundation/errors.ts";
import type { EngineContext } from "../engine.ts";
import { findProgram } from "../find-program.ts";
import { refuseSecrets } from "../secrets.ts";
import { argumentValue, refuseArguments } from "./arguments.ts";
import type { ManagedModelOptions } from "./options.ts";

/** How to get the program of each engine. */
const installHints: Readonly<Record<ManagedModelOptions["engine"], string>> = {
  "llama-server":
    "install llama.cpp, as by brew install llama.cpp, or name its program with model.command",
  vllm: "pip install vllm, or name the program of its environment with model.command",
};

const addressHint = "leave it out: the server listens on 127.0.0.1, on a port that is free";
const keyHint = "leave it out: each server gets a key of its own";
const nameHint = "say it by model.name";

/** Arguments that only Sluice sets. */
const reserved: Readonly<Record<ManagedModelOptions["engine"], Readonly<Record<string, string>>>> =
  {
    "llama-server": {
      "--host": addressHint,
      "--port": addressHint,
      "--api-key": keyHint,
      "--api-key-file": keyHint,
      "-m": nameHint,
      "--model": nameHint,
      "-hf": nameHint,
      "--hf-repo": nameHint,
      "-mu": nameHint,
      "--model-url": nameHint,
    },
    vllm: {
      "--host": addressHint,
      "--port": addressHint,
      "--uds": addressHint,
      "--api-key": keyHint,
      "--model": nameHint,
      "--hf-token": "leave it out: the server has HF_TOKEN of the environment",
    },
  };

/** The program of a server, and its first arguments. */
export function commandOf({
  engine,
  command = engine,
}: ManagedModelOptions): [string, ...string[]] {
  return typeof command === "string" ? [command] : (command as [string, ...string[]]);
}

/** The further arguments of a server as texts. */
export function argumentsOf({ args }: ManagedModelOptions): string[] {
  return args.map(String);
}

/**
 * Refuses an impossible command line, and options that contain a secret.
 *
 * @throws SluiceError `JOB_INVALID`.
 */
export function checkOptions(
  options: ManagedModelOptions,
  environment: EngineContext["environment"],
): void {
  refuseArguments(argumentsOf(options), reserved[options.engine]);
  refuseSecrets(commandOf(options), "model.command", environment);
  refuseSecrets(argumentsOf(options), "model.args", environment);
  refuseSecrets([JSON.stringify(options.extraBody ?? {})], "model.extraBody", environment);
}

/** @throws SluiceError `PROGRAM_MISSING`, with how to get it. */
export function findServerProgram(
  options: ManagedModelOptions,
  environment: EngineContext["environment"],
): Promise<string> {
  return findProgram(commandOf(options)[0], environment, installHints[options.engine]);
}

const parallelFlags = [
  ["-tp", "--tensor-parallel-size"],
  ["-pp", "--pipeline-parallel-size"],
  ["-dp", "--data-parallel-size"],
];

/**
 * The GPUs of one vLLM, by its arguments.
 *
 * @throws SluiceError `JOB_INVALID` if one of them is not a number.
 */
export function gpusOfVllm(options: ManagedModelOptions): number {
  let gpus = 1;
  for (const flags of parallelFlags) {
    const value = argumentValue(argumentsOf(options), flags) ?? "1";
    if (!/^[1-9]\d{0,3}$/.test(value)) {
      const field = "model.args";
      throw new SluiceError("JOB_INVALID", `${flags[1]} is ${value}, which is not a count`, {
        field,
      });
    }
    gpus *= Number(value);
  }
  return gpus;
}
