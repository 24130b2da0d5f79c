import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import type { StopSignal } from "../../../src/cli/io.ts";
import { runCommandLine } from "../../../src/cli/program.ts";
import { writeArchive } from "../../../src/serve/torchserve/archive.ts";
import { manifestSchema } from "../../../src/serve/torchserve/archive-options.ts";
import { serverFolder } from "../../serve/server-here.ts";
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
