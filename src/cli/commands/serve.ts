import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { engineContext, runDependencies } from "../../api/run-dependencies.ts";
import { deviceShares, thisMachine } from "../../backends/registry.ts";
import { absoluteLocation } from "../../data/storage/open.ts";
import { prepareEngine } from "../../engines/prepare-engine.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { type Logger, textLogger } from "../../foundation/logger.ts";
import type { ServeOptions } from "../../serve/options.ts";
import type { Server } from "../../serve/server.ts";
import { downloadContext } from "../download-context.ts";
import { type CliIo, type CommandCall, write } from "../io.ts";
import { untilSignal } from "../until-signal.ts";

interface ServeCommandFlags {
  config?: string;
  model: string[];
  listen?: string;
  data?: string;
  insecure?: boolean;
  install: boolean;
  accessLog: boolean;
  json?: boolean;
  start?: boolean;
  stop?: boolean;
  foreground?: boolean;
  modelStore?: string;
  tsConfig?: string;
  models?: string[];
}

/** `sluice serve`: serves models over HTTP until a signal ends it. */
export function register(command: Command, io: CliIo, { args = [] }: CommandCall): void {
  const collect = (text: string, before: string[]) => [...before, text];
  for (const flag of torchServeFlags) command.addOption(new Option(flag).hideHelp());
  command
    .option("-c, --config <file>", "the server's file, such as serve.yaml")
    .option(
      "--model <[name=]spec>",
      "a model: a catalog name, a GGUF file, openai:NAME, predictor:./module.ts, …",
      collect,
      [],
    )
    .option("--listen <address>", "address and port of the API, default 127.0.0.1:8080")
    .option("--data <folder>", "folder of files and batches, default sluice-data")
    .option("--insecure", "serve other machines without tokens")
    .option("--no-access-log", "no line for each request")
    .option("--no-install", "fetch neither engine packages nor models")
    .option("--json", "print the addresses as JSON when it is ready")
    .option("--start", "start it in the background, and return when it is ready")
    .option("--stop", "end the server that was started in this folder")
    .option("--foreground", "with --start: stay in the foreground")
    .option("--model-store <folder>", "folder of .mar archives")
    .option("--ts-config <file>", "a config.properties of TorchServe")
    .option("--models <archives...>", "archives to load, as ko=ko.mar,en=en.mar; all = every one")
    .action((flags: ServeCommandFlags) => serve(flags, args, io));
}

/** What TorchServe's command takes beside these, and needs nothing here. */
const torchServeFlags = [
  ...["--ncs", "--no-config-snapshots", "--disable-token-auth", "--enable-model-api"],
];

async function serve(flags: ServeCommandFlags, args: readonly string[], io: CliIo): Promise<void> {
  const { start, stop, foreground, json } = flags;
  if (stop) return (await import("../background-server.ts")).stopBackground(io);
  if (start && !foreground) {
    return (await import("../background-server.ts")).startInBackground(args, json === true, io);
  }
  await serveHere(flags, io);
}

async function serveHere(flags: ServeCommandFlags, io: CliIo): Promise<void> {
  const { readServerFile } = await import("../../serve/server-file.ts");
  const logger = textLogger((line) => void io.stderr.write(line));
  const keys = await keysOf(flags, logger, io);
  const { options, placed } = await readServerFile(flags.config, { models: flags.model, keys }, io);
  try {
    await serveUntilSignal(options, flags, logger, io);
  } catch (thrown) {
    throw placed(thrown);
  }
}

async function serveUntilSignal(
  options: ServeOptions,
  flags: ServeCommandFlags,
  logger: Logger,
  io: CliIo,
): Promise<void> {
  const { startServer } = await import("../../serve/server.ts");
  await untilSignal(io, logger, async (signal, listen) => {
    await prepareModels(options, flags.install, io, signal);
    const logAccess = (facts: object) => {
      const time = new Date(io.clock.now()).toISOString();
      io.stderr.write(`${JSON.stringify({ time, ...facts })}\n`);
    };
    const { openStorage, processes } = runDependencies(io, logger);
    const context = {
      ...{ ...engineContext(io, logger), logAccess, openStorage, processes },
      resources: {
        cores: thisMachine().cores,
        devices: await deviceShares(io.environment),
      },
    };
    const server = await startServer(options, context, signal);
    // Until now a signal ends the process, however long a model loads: nothing is lost.
    listen();
    let withdraw: (() => Promise<void>) | undefined;
    try {
      if (flags.foreground) {
        withdraw = await (await import("../background-server.ts")).announce(server.addresses, io);
      }
      await write(io, readyText(server, flags.json === true));
      const ended = AbortSignal.any([signal, server.lost]);
      await new Promise<void>((resolve) => {
        if (ended.aborted) resolve();
        ended.addEventListener("abort", () => resolve(), { once: true });
      });
      server.lost.throwIfAborted();
    } finally {
      await server.close();
      await withdraw?.();
    }
  });
}

/** Keys of the flags, before those of TorchServe's file. */
async function keysOf(flags: ServeCommandFlags, logger: Logger, io: CliIo): Promise<JsonObject> {
  const { listen, data, insecure, accessLog, modelStore, tsConfig, models } = flags;
  const { archiveEntries, mergedKeys, readConfigProperties } = await import(
    "../../serve/torchserve/config-properties.ts"
  );
  const absolute = (path: string) => resolve(io.workingDirectory, path);
  let given: JsonObject = {};
  if (tsConfig !== undefined) {
    const { keys, warnings } = readConfigProperties(await textOf(absolute(tsConfig)), tsConfig);
    for (const warning of warnings) logger.log("warn", warning);
    given = keys;
  }
  const entries = archiveEntries(models?.join(",") ?? "");
  const load = entries.filter((each) => each !== "all" && each !== "none");
  const merged = mergedKeys(given, {
    ...(listen !== undefined && { listen: { inference: listen } }),
    // Relative paths of the server's file start from its folder.
    ...(data !== undefined && { dataDirectory: absoluteLocation(io.workingDirectory, data) }),
    ...(insecure && { insecure }),
    ...(!accessLog && { accessLog }),
    archives: {
      ...(modelStore !== undefined && { modelStore }),
      ...(models !== undefined && { load, loadAll: entries.includes("all") }),
    },
  });
  const { archives } = merged as { archives: JsonObject };
  const store = archives.modelStore;
  // As TorchServe has it: from the folder of the call, not from that of a file.
  if (typeof store === "string") archives.modelStore = absolute(store);
  return merged;
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    const { message } = cause as Error;
    throw new SluiceError("SERVER_INVALID", message, { file: path, cause, hint: "check the path" });
  }
}

async function prepareModels(
  options: ServeOptions,
  install: boolean,
  io: CliIo,
  signal: AbortSignal,
): Promise<void> {
  const { ofModel } = await import("../../serve/server-file.ts");
  for (const [name, { model }] of Object.entries(options.models)) {
    try {
      await prepareEngine(model, downloadContext(io, signal), { install });
    } catch (thrown) {
      throw signal.aborted ? thrown : ofModel(name, thrown);
    }
  }
}

function readyText({ addresses, models }: Server, isJson: boolean): string {
  if (isJson) return `${JSON.stringify({ addresses, models })}\n`;
  const lines = [
    `${models.join(", ") || "models"} at ${addresses.inference}/v1`,
    `try: curl ${addresses.inference}/v1/models`,
  ];
  return `${lines.join("\n")}\n`;
}
