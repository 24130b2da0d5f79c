import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import type { StopSignal } from "../../../src/cli/io.ts";
import { runCommandLine } from "../../../src/cli/program.ts";
import { writeArchive } from "../../../src/serve/torchserve/archive.ts";
import { manifestSchema } from "../../../src/serve/torchserve/archive-options.ts";
import { serverFolder } from "../../serve/server-here.ts";
import { callHere } from "../call.ts";
import { stubIo } from "../io-stub.ts";

/** The names of the models that `sluice serve` says to serve; it ends then. */
async function namesServed(folder: string, flags: readonly string[]): Promise<string[]> {
  const listeners = new Set<(signal: StopSignal) => void>();
  const process = { ...stubIo().io.process, executable: globalThis.process.execPath };
  const { io, written } = stubIo({
    ...{ workingDirectory: folder, process: { ...process, userDirectory: folder } },
    onSignal(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
  const ended = runCommandLine(["serve", "--json", ...flags], io, { version: "1" });
  await Promise.race([once(io.stdout as PassThrough, "data"), ended]);
  for (const listener of listeners) listener("SIGTERM");
  await ended;
  return (JSON.parse(written.stdout || written.stderr) as { models: string[] }).models;
}

it.each([
  [[], ["ko"]],
  [["--models", "none"], []],
  [["--models", "en=m-v2.mar"], ["en"]],
  [["--models", "all"], ["manifest"]],
  // Without a name it is that of the manifest.
  [["--models", "m-v2.mar"], ["manifest"]],
])("archives of flags %j, before those of config.properties: %j", async (flags, names) => {
  const folder = serverFolder();
  const handler = { path: join(folder, "handler.mjs"), name: "handler.mjs" };
  writeFileSync(handler.path, "export const handle = (rows) => rows;");
  const model = { modelName: "manifest", handler: handler.name };
  const manifest = manifestSchema.parse({ runtime: "node", model });
  await writeArchive(join(folder, "m-v2.mar"), manifest, [handler]);
  const addresses = ["inference", "management", "metrics"].map(
    (each) => `${each}_address=http://127.0.0.1:0`,
  );
  const properties = ["model_store=.", "load_models=ko=m-v2.mar", ...addresses, ""];
  writeFileSync(join(folder, "config.properties"), properties.join("\n"));
  expect(await namesServed(folder, ["--ts-config", "config.properties", ...flags])).toEqual(names);
});

it("replaces an archive that is there only where it is told to", async () => {
  const folder = serverFolder();
  const handler = join(folder, "handler.mjs");
  const archive = async (code: string, ...flags: string[]) => {
    writeFileSync(handler, code);
    const words = ["--model-name", "m", "--handler", "handler.mjs", ...flags];
    const { code: exitCode, stderr } = await callHere(["archive", ...words], folder);
    return { exitCode, stderr, bytes: readFileSync(join(folder, "m.mar")).toString("latin1") };
  };
  const first = await archive("export const handle = () => [1];");
  const refused = await archive("export const handle = () => [2];");
  expect(refused).toEqual({
    ...{ exitCode: 64, bytes: first.bytes },
    stderr: expect.stringMatching(/OUTPUT_OCCUPIED: .*m\.mar[\s\S]*--force replaces it/),
  });
  const forced = await archive("export const handle = () => [3];", "--force");
  expect(forced.exitCode).toBe(0);
  expect(forced.bytes).not.toBe(first.bytes);
});

it("takes a relative --data from the folder of the call, also beside a server's file", async () => {
  const folder = serverFolder();
  mkdirSync(join(folder, "conf"));
  writeFileSync(join(folder, "conf/serve.yaml"), "models: { m: { model: { engine: fake } } }\n");
  const flags = ["-c", "conf/serve.yaml", "--listen", "127.0.0.1:0", "--data", "kept"];
  expect(await namesServed(folder, flags)).toEqual(["m"]);
  expect(existsSync(join(folder, "kept"))).toBe(true);
  expect(existsSync(join(folder, "conf/kept"))).toBe(false);
});

it("starts in the background, says where in JSON, and stops", async () => {
  const folder = serverFolder();
  const server = ["--model", "m=fake", "--listen", "127.0.0.1:0", "--json"];
  const started = await callHere(["serve", "--start", ...server], folder);
  expect(JSON.parse(started.stdout), started.stderr).toEqual({
    addresses: expect.objectContaining({ inference: expect.stringMatching(/^http:/) }),
    pid: expect.any(Number),
  });
  expect((await callHere(["serve", "--stop"], folder)).code).toBe(0);
});

it("ends a server that a signal keeps from starting", async () => {
  const folder = serverFolder();
  const stub = stubIo({
    ...{ workingDirectory: folder, environment: process.env },
    process: { ...stubIo().io.process, executable: process.execPath },
    onSignal(listener) {
      listener("SIGINT");
      return () => {};
    },
  });
  const args = ["serve", "--start", "--model", "m=fake", "--listen", "127.0.0.1:0"];
  await runCommandLine(args, stub.io, { version: "1" });
  expect({ ...stub.written, ...stub.state }).toEqual({ stdout: "", stderr: "", exitCode: 130 });
  expect((await callHere(["serve", "--stop"], folder)).stderr).toContain("SERVER_NOT_RUNNING");
});
