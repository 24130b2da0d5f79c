import { stat } from "node:fs/promises";
import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";
import { packageFile } from "../../entry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse } from "../../foundation/inference.ts";
import { canonicalJson, type Json } from "../../foundation/json.ts";
import type { Environment } from "../../foundation/subprocess.ts";
import type { BatchLimits } from "../batching/batch-size.ts";
import { tracingBatches } from "../batching/batch-spans.ts";
import { type Batched, batched } from "../batching/batched.ts";
import { requestCost } from "../batching/prediction.ts";
import { assignedVariable } from "../devices.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { type ReplicaShare, shareAmongReplicas } from "../replicas.ts";
import type { CommandModelOptions } from "./options.ts";
import { programParameters } from "./parameters.ts";
import { type OpenedProgram, Program } from "./program.ts";
import { ProgramModel } from "./program-model.ts";

/**
 * Opens an engine whose answers come from a program that reads batches as JSON lines and answers
 * them: `docs/engine-command.md`. Each replica is a separate process, which ends with this one.
 *
 * @throws SluiceError `PROGRAM_MISSING`; `ENGINE_START_FAILED` if the program ends, or does not get
 *   ready; `JOB_INVALID` for more replicas than GPUs, or if `workingDirectory` is not a folder.
 */
export async function openCommand(
  options: CommandModelOptions,
  context: EngineContext,
): Promise<Engine> {
  const { command, workingDirectory, timeoutMs, loadTimeoutMs } = options;
  const args = options.args.map(String);
  if (workingDirectory !== undefined) await assertFolder(workingDirectory);
  const programs = shareAmongReplicas(options, context.environment).map((share, replica) => {
    const environment = programEnvironment(share, replica, context.environment);
    const started = { command, args, workingDirectory, environment, timeoutMs, loadTimeoutMs };
    return new Program(started, context);
  });
  try {
    const opened = await Promise.all(programs.map((program) => program.open()));
    return new CommandEngine(options, context, programs, opened);
  } catch (error) {
    await Promise.all(programs.map((program) => program.close()));
    throw error;
  }
}

/**
 * The environment of a replica: that of the worker, its own share of the machine, and the folder of
 * Sluice's Python modules.
 */
function programEnvironment(
  { environment: own, devices }: ReplicaShare,
  replica: number,
  environment: Environment,
): Environment {
  const modules = fileURLToPath(packageFile("python"));
  return {
    ...environment,
    ...own,
    ...(devices.length > 0 && { [assignedVariable]: `cuda:${devices.join(",")}` }),
    SLUICE_REPLICA: String(replica),
    // After the user's own modules.
    PYTHONPATH: [environment.PYTHONPATH, modules].filter(Boolean).join(delimiter),
    // Otherwise a script that prints its answers without a flush would hold them back.
    PYTHONUNBUFFERED: "1",
  };
}

async function assertFolder(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) return;
  const field = "model.workingDirectory";
  throw new SluiceError("JOB_INVALID", `${path} is not a folder`, { field });
}

class CommandEngine implements Engine {
  readonly name = "command";
  readonly choices: Readonly<Record<string, Json>>;
  readonly #programs: readonly Program[];
  readonly #batches: Batched<InferenceRequest, InferenceResponse>;

  constructor(
    options: CommandModelOptions,
    context: EngineContext,
    programs: readonly Program[],
    opened: readonly OpenedProgram[],
  ) {
    this.#programs = programs;
    const models = programs.map((program) => new ProgramModel(program, context.clock));
    this.#batches = batched(models, batchLimits(options, opened), tracingBatches(context));
    this.choices = {
      program: opened[0]?.name ?? options.command,
      weights: options.filesSha256 ?? null,
      replicas: opened.length,
      devices: opened.map(({ device }) => device ?? null),
      pids: opened.map(({ pid }) => pid ?? null),
    };
  }

  get capacity(): number {
    return this.#batches.capacity;
  }

  get concurrency(): number {
    return this.#batches.concurrency;
  }

  infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const key = canonicalJson(programParameters(request.parameters));
    return this.#batches.infer(request, { ...requestCost(request), key }, signal);
  }

  async close(): Promise<void> {
    await this.#batches.close();
    await Promise.all(this.#programs.map((program) => program.close()));
  }
}

/** The job's limits, and no more rows than the programs take at once. */
function batchLimits(options: CommandModelOptions, opened: readonly OpenedProgram[]): BatchLimits {
  return {
    ...options,
    mostRows: Math.min(
      ...opened.map((program) => program.maxBatchRows ?? Number.POSITIVE_INFINITY),
    ),
  };
}
