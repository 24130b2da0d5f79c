import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { withFileLock } from "../../../src/engines/models/file-lock.ts";
import { hubCache } from "../../../src/engines/models/hub-cache.ts";
import { prepareTransformers } from "../../../src/engines/transformers/engine.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { transformersOptions } from "../../integration/transformers-files.ts";
import { untilGone } from "../../live-processes.ts";
import { modelContext, temporaryFolder } from "../models/context.ts";

const options = transformersOptions({ task: "translation", name: "owner/name", dtype: "fp32" });

/** Prepares the model with a host that never gets ready. */
async function preparing() {
  const workingDirectory = await temporaryFolder();
  const module = join(workingDirectory, "node_modules/@huggingface/transformers");
  await mkdir(module, { recursive: true });
  await writeFile(join(module, "package.json"), JSON.stringify({ version: "4.3.1" }));
  const stop = new AbortController();
  const pidFile = join(workingDirectory, "pid");
  const script = `require("fs").writeFileSync(${JSON.stringify(pidFile)}, String(process.pid));
    setInterval(() => {}, 1000);`;
  const context = {
    ...(await modelContext()),
    ...{ clock: systemClock, workingDirectory, signal: stop.signal },
    hostCommand: [process.execPath, "-e", script],
  };
  return { context, pidFile, stop };
}

it("ends the fetch of a model with its process", async () => {
  const { context, pidFile, stop } = await preparing();
  const prepared = prepareTransformers(options, context, { install: true });
  prepared.catch(() => {});
  const pid = async () => Number(await readFile(pidFile, "utf8").catch(() => ""));
  await expect.poll(pid, { timeout: 10_000 }).toBeGreaterThan(0);
  stop.abort(new Error("Ctrl-C"));
  await expect(prepared).rejects.toThrow("Ctrl-C");
  await untilGone([await pid()]);
});

it("ends the wait for another process that fetches the model", async () => {
  const { context, stop } = await preparing();
  const model = { repository: "owner/name", revision: "main" };
  const { lock } = hubCache(context.homeDirectory, model, "translation fp32");
  await withFileLock(lock, context, async () => {
    const onWait = () => stop.abort(new Error("Ctrl-C"));
    const prepared = prepareTransformers(options, context, { install: true, onWait });
    await expect(prepared).rejects.toThrow("Ctrl-C");
  });
});
