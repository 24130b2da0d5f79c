import { mkdir, mkdtemp, rm, statfs, writeFile } from "node:fs/promises";
import { availableParallelism, freemem, totalmem } from "node:os";
import { join } from "node:path";
import { homeDirectory } from "../api/home.ts";
import { runDependencies } from "../api/run-dependencies.ts";
import { absoluteLocation, schemeOf } from "../data/storage/open.ts";
import { driverFacts, listDevices, shownDevices } from "../engines/devices.ts";
import { lastMeasurement } from "../engines/engine-speed.ts";
import { modelOptions } from "../engines/model-options.ts";
import type { ModelContext } from "../engines/models/model-context.ts";
import { listModels } from "../engines/models/models.ts";
import { cudaProblem } from "../engines/packages/lock.ts";
import { listEngines, locateEnginePackage } from "../engines/packages/packages.ts";
import { describeEngine } from "../engines/registry.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import { sortableId } from "../foundation/ids.ts";
import { silentLogger } from "../foundation/logger.ts";
import { runCommand } from "../foundation/subprocess.ts";
import { probeStore } from "../run/plan/probe.ts";
import { switchLine } from "./engine-speed-view.ts";
import type { CliIo } from "./io.ts";

export interface Check {
  name: string;
  /** `ok`; `note`: optional, or done later automatically; `missing`: a run would fail. */
  state: "ok" | "note" | "missing";
  detail: string;
  hint?: string;
}

const commandTimeoutMs = 10_000;
/** The embedded model, its engine and a run or two. */
const comfortableDiskBytes = 1024 ** 3;

/** Checks everything that runs need, without the network. */
export async function doctorChecks(io: CliIo, outputDirectory: string): Promise<Check[]> {
  const home = homeDirectory(io);
  const groups = await Promise.all([
    [nodeCheck(io), machineCheck()],
    homeCheck(home),
    outputCheck(io, absoluteLocation(io.workingDirectory, outputDirectory)),
    named("engines", () => engineChecks(io, home)),
    serverCheck(io, home, "llama-server"),
    serverCheck(io, home, "vllm"),
    engineSpeedCheck(home),
    named("models", () => modelChecks(io, home)),
    gpuCheck(io, home),
    programCheck(io, "npm", ["--version"], "adds engine packages"),
    programCheck(
      io,
      "python3",
      ["-m", "pip", "--version"],
      "fetches models if the hub cannot be reached",
    ),
    [proxyCheck(io), keyCheck(io)],
  ]);
  return groups.flat();
}

/** A failed check is a finding, and must not hide the others. */
async function named(name: string, look: () => Promise<Check[]>): Promise<Check[]> {
  try {
    return await look();
  } catch (error) {
    const { message, hint } = asSluiceError(error);
    return [{ name, state: "missing", detail: message, hint }];
  }
}

function nodeCheck(io: CliIo): Check {
  const { nodeVersion, executable, platform, architecture } = io.process;
  const detail = `${nodeVersion} on ${platform}-${architecture} (${executable})`;
  return { name: "node", state: "ok", detail };
}

function machineCheck(): Check {
  const memory = `${gigabytes(totalmem())} memory, ${gigabytes(freemem())} free`;
  return { name: "machine", state: "ok", detail: `${availableParallelism()} cores, ${memory}` };
}

async function homeCheck(home: string): Promise<Check> {
  try {
    await mkdir(home, { recursive: true });
    const probe = await mkdtemp(join(home, ".doctor-"));
    await writeFile(join(probe, "probe"), "probe");
    await rm(probe, { recursive: true });
    const { bavail, bsize } = await statfs(home);
    const free = bavail * bsize;
    const detail = `${home}, ${gigabytes(free)} free`;
    if (free >= comfortableDiskBytes) return { name: "home", state: "ok", detail };
    return { name: "home", state: "note", detail, hint: "free some space for models and engines" };
  } catch (error) {
    const detail = `${home} cannot be written (${(error as NodeJS.ErrnoException).code})`;
    const hint = "set SLUICE_HOME to a folder that can be written";
    return { name: "home", state: "missing", detail, hint };
  }
}

async function outputCheck(io: CliIo, place: string): Promise<Check> {
  if (schemeOf(place) === undefined) return directoryCheck(io, place);
  const [check] = await named("output", async () => {
    await probeOutput(io, place);
    const detail = `${place}: an object is created exactly once`;
    return [{ name: "output", state: "ok", detail }];
  });
  return check!;
}

async function probeOutput(io: CliIo, place: string): Promise<void> {
  const { openStorage } = runDependencies(io, silentLogger);
  await probeStore(openStorage(place), sortableId(io.clock, io.random));
}

async function directoryCheck(io: CliIo, directory: string): Promise<Check> {
  const name = "output";
  let made: string | undefined;
  let place: string | undefined;
  try {
    made = await mkdir(directory, { recursive: true });
    place = await mkdtemp(join(directory, ".sluice-doctor-"));
    await probeOutput(io, place);
    return { name, state: "ok", detail: `${directory}: a file is created exactly once` };
  } catch (error) {
    const isNamed = error instanceof SluiceError;
    const code = (error as NodeJS.ErrnoException).code;
    const detail = isNamed ? error.message : `${directory} cannot be written (${code})`;
    const hint = isNamed ? error.hint : "name a directory that can be written with --output";
    return { name, state: "missing", detail, hint };
  } finally {
    const left = made ?? place;
    if (left !== undefined) await rm(left, { recursive: true, force: true });
  }
}

function contextOf(io: CliIo, home: string): ModelContext {
  const { clock, random, environment, workingDirectory } = io;
  const logger = silentLogger;
  return { clock, random, logger, environment, homeDirectory: home, workingDirectory };
}

async function engineChecks(io: CliIo, home: string): Promise<Check[]> {
  const listings = await listEngines(contextOf(io, home));
  return listings.map(({ engine, module, version, located, refusal }): Check => {
    const name = `engine ${engine}`;
    if (located) return { name, state: "ok", detail: `${module} ${version} (${located.source})` };
    if (refusal) return { name, state: "note", detail: refusal };
    const detail = `${module} ${version} is not here yet; the first run that needs it adds it`;
    return { name, state: "note", detail, hint: `sluice engine add ${engine} adds it now` };
  });
}

async function engineSpeedCheck(home: string): Promise<Check> {
  const name = "engine speed";
  const measurement = await lastMeasurement({ homeDirectory: home });
  if (!measurement) {
    const hint = "sluice engine measure finds the fastest engine of this machine";
    return { name, state: "note", detail: "not measured yet", hint };
  }
  const { speeds, model, measuredAt } = measurement;
  const found = speeds.map(({ engine, tokensPerSecond }) => {
    return `${engine} ${tokensPerSecond.toFixed(0)} tokens/s`;
  });
  const hint = switchLine(measurement, "llama", "NAME");
  const detail = `${found.join(", ")} (${model}, ${measuredAt.slice(0, 10)})`;
  return { name, state: "ok", detail, ...(hint !== undefined && { hint }) };
}

async function modelChecks(io: CliIo, home: string): Promise<Check[]> {
  const listings = await listModels(contextOf(io, home));
  return listings.map(({ name, path, bytes }): Check => {
    const size = `${Math.round(bytes / 1e6)} MB`;
    if (path) return { name: `model ${name}`, state: "ok", detail: `${size}, ${path}` };
    const detail = `${size}, not here yet; the first run that needs it fetches it`;
    return { name: `model ${name}`, state: "note", detail };
  });
}

async function gpuCheck(io: CliIo, home: string): Promise<Check> {
  const name = "gpu";
  const { environment } = io;
  const { devices, problem } = await listDevices(environment);
  if (problem !== undefined) return { name, state: "note", detail: `none seen (${problem})` };
  if (devices.length === 0) {
    return { name, state: "note", detail: "none seen; models run on the CPU" };
  }
  const shown = shownDevices(devices, environment);
  const driver = await driverFacts(environment);
  const parts = devices.map((device) => `${device.id} ${device.name} (${device.memory})`);
  if (driver !== undefined) parts.push(`driver ${driver.version}`);
  if (environment.CUDA_VISIBLE_DEVICES !== undefined) {
    parts.push(`CUDA_VISIBLE_DEVICES shows ${shown.map(({ id }) => id).join(", ") || "none"}`);
  }
  const lack = driver && cudaProblem(driver);
  if (lack === undefined || (await hasVulkan(io, home))) {
    return { name, state: "ok", detail: parts.join("; ") };
  }
  const hint =
    "update the driver, or run sluice engine add llama --hardware vulkan; " +
    "until then, model.gpuLayers 0 computes on the CPU";
  return { name, state: "note", detail: [...parts, lack].join("; "), hint };
}

async function hasVulkan(io: CliIo, home: string): Promise<boolean> {
  const options = { install: false, hardware: "vulkan" } as const;
  const located = locateEnginePackage("llama", contextOf(io, home), options);
  return (await located.catch(() => undefined))?.source === "home";
}

async function programCheck(
  io: CliIo,
  program: string,
  args: readonly string[],
  purpose: string,
): Promise<Check> {
  const name = args.includes("pip") ? "pip" : program;
  const output = await outputOf(io, program, args);
  if (output === undefined) return { name, state: "note", detail: `not found; it ${purpose}` };
  const version = output.split(" from ")[0]!.replace(/^pip /, "");
  return { name, state: "ok", detail: `${version}; ${purpose}` };
}

/**
 * Whether a server can be started. Its version is not requested, because that takes vLLM seconds.
 */
async function serverCheck(io: CliIo, home: string, engine: "llama-server" | "vllm") {
  const name = `engine ${engine}`;
  const model = modelOptions.parse({ engine, name: "smollm2-135m-instruct" });
  try {
    await describeEngine(model).check?.(model, contextOf(io, home));
    return { name, state: "ok", detail: "its program is on PATH" } satisfies Check;
  } catch (error) {
    const { message, hint } = asSluiceError(error);
    return { name, state: "note", detail: message, hint } satisfies Check;
  }
}

/** The output of a program; undefined if it is missing or fails. */
async function outputOf(
  io: CliIo,
  program: string,
  args: readonly string[],
): Promise<string | undefined> {
  try {
    const options = { env: io.environment, timeoutMs: commandTimeoutMs };
    const { code, stdout } = await runCommand(program, args, options);
    return code === 0 ? stdout.trim() : undefined;
  } catch {
    // A program that cannot be started is the finding, whatever the reason.
    return undefined;
  }
}

function proxyCheck(io: CliIo): Check {
  const names = ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];
  const set = names.flatMap((name) => {
    const value = io.environment[name] ?? io.environment[name.toLowerCase()];
    return value ? [`${name}=${value.replace(/(^|\/\/)[^/@]*@/, "$1***@")}`] : [];
  });
  const detail = set.length === 0 ? "none" : set.join(" ");
  return { name: "proxies", state: "ok", detail };
}

function keyCheck(io: CliIo): Check {
  const names = ["OPENAI_API_KEY", "HF_TOKEN"];
  const facts = names.map((name) => `${name} is ${io.environment[name] ? "set" : "not set"}`);
  return { name: "keys", state: "ok", detail: facts.join(", ") };
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
}
