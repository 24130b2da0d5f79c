import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemProcesses } from "../api/process-table.ts";
import { withStoreErrors } from "../data/storage/local-errors.ts";
import { entryCommand } from "../entry.ts";
import { sleep } from "../foundation/clock.ts";
import { SluiceError } from "../foundation/errors.ts";
import { isJsonObject, jsonObjectIn } from "../foundation/json.ts";
import type { Processes, ProcessIdentity } from "../run/coordinate/processes.ts";
import { type CliIo, type StopSignal, signalCodes, write } from "./io.ts";

const recordName = ".sluice-serve.json";

/** Where a server in the background writes its log. */
const logName = "logs/sluice-serve.log";

const pollMs = 50;

/** A server that is told to end has so long, beyond which it is killed. */
const stopTimeoutMs = 120_000;

/** The server that runs in a folder. */
interface RunningRecord {
  process: ProcessIdentity;
  addresses: Readonly<Record<string, string>>;
}

/**
 * Starts the same command line in the background, and waits until that server is ready.
 *
 * @param args the whole command line, with `--start`.
 * @throws SluiceError `SERVER_RUNNING`.
 */
export async function startInBackground(
  args: readonly string[],
  isJson: boolean,
  io: CliIo,
): Promise<void> {
  await assertNoneRuns(io);
  const log = join(io.workingDirectory, logName);
  const output = await withStoreErrors(log, async () => {
    await mkdir(dirname(log), { recursive: true });
    return openSync(log, "a");
  });
  const { size: logStart } = await stat(log);
  const [executable, ...main] = entryCommand("cli/main", io.process.executable);
  const own = args.map((arg) => (arg === "--start" ? "--foreground" : arg));
  const child = spawn(executable!, [...main, ...own], {
    cwd: io.workingDirectory,
    env: io.environment as NodeJS.ProcessEnv,
    stdio: ["ignore", output, output],
    detached: true,
  });
  let ended: number | undefined;
  child.once("exit", (code) => {
    ended = code ?? 1;
  });
  child.once("error", () => {
    ended = 1;
  });
  let received: StopSignal | undefined;
  // Of a group of its own, it gets no signal from the terminal.
  const ignore = io.onSignal((signal) => {
    if (received) return io.leave(signal);
    received = signal;
    child.kill();
  });
  try {
    while (ended === undefined) {
      const record = await readRecord(io);
      if (!received && record !== undefined && record.process.pid === child.pid) {
        child.unref();
        return await write(io, startedText(record, isJson));
      }
      await sleep(io.clock, pollMs);
    }
  } finally {
    ignore();
  }
  if (received) return io.setExitCode(signalCodes[received]);
  io.stderr.write((await readFile(log)).subarray(logStart).toString());
  io.setExitCode(ended);
}

function startedText({ process: { pid }, addresses }: RunningRecord, isJson: boolean): string {
  if (isJson) return `${JSON.stringify({ addresses, pid })}\n`;
  const { inference, management } = addresses;
  return `${inference} and ${management} are served by process ${pid}\n`;
}

/**
 * Ends the server of a folder, and waits for its end: requests in work are answered first.
 *
 * @throws SluiceError `SERVER_NOT_RUNNING`.
 */
export async function stopBackground(io: CliIo): Promise<void> {
  const record = await readRecord(io);
  const processes = processesOf(io);
  if (record === undefined) throw new SluiceError("SERVER_NOT_RUNNING");
  const { pid, host } = record.process;
  const isHere = host === processes.self().host;
  const state = processes.look(record.process);
  if (state === "elsewhere" && !isHere) {
    throw new SluiceError("SERVER_NOT_RUNNING", `it runs on ${host}`);
  }
  if (state !== "alive") {
    // The process was killed, or the machine has started anew since.
    await rm(join(io.workingDirectory, recordName), { force: true });
    throw new SluiceError("SERVER_NOT_RUNNING", `process ${pid} has ended already`);
  }
  process.kill(pid, "SIGTERM");
  const endMs = io.clock.monotonic() + stopTimeoutMs;
  while (processes.look(record.process) === "alive") {
    if (io.clock.monotonic() > endMs) process.kill(pid, "SIGKILL");
    await sleep(io.clock, pollMs);
  }
  await removeRecord(record.process, io);
  await write(io, `process ${pid} has ended\n`);
}

/**
 * Says in the folder that this process serves; the returned function takes it back.
 *
 * @throws SluiceError `SERVER_RUNNING`.
 */
export async function announce(
  addresses: RunningRecord["addresses"],
  io: CliIo,
): Promise<() => Promise<void>> {
  await assertNoneRuns(io);
  const own = processesOf(io).self();
  const path = join(io.workingDirectory, recordName);
  const draft = `${path}.${own.pid}`;
  await withStoreErrors(path, async () => {
    await writeFile(draft, `${JSON.stringify({ process: own, addresses })}\n`, { mode: 0o600 });
    await rename(draft, path);
  });
  return () => removeRecord(own, io);
}

async function assertNoneRuns(io: CliIo): Promise<void> {
  const record = await readRecord(io);
  // A file that a killed process or another machine left does not count.
  if (record === undefined || processesOf(io).look(record.process) !== "alive") return;
  const { inference } = record.addresses;
  throw new SluiceError("SERVER_RUNNING", `process ${record.process.pid} at ${inference}`);
}

const processesOf = ({ process }: CliIo): Processes =>
  systemProcesses(process.pid, process.platform);

async function readRecord(io: CliIo): Promise<RunningRecord | undefined> {
  const text = await readFile(join(io.workingDirectory, recordName), "utf8").catch(() => "");
  const record = jsonObjectIn(text);
  const isWhole = isJsonObject(record?.process) && isJsonObject(record.addresses);
  return isWhole ? (record as unknown as RunningRecord) : undefined;
}

/** Removes the file unless another server has written its own. */
async function removeRecord(own: ProcessIdentity, io: CliIo): Promise<void> {
  const record = await readRecord(io);
  if (record?.process.pid !== own.pid || record.process.startTime !== own.startTime) return;
  await rm(join(io.workingDirectory, recordName), { force: true });
}
