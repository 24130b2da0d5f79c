import type { Command } from "commander";
import { engineContext, runDependencies } from "../../api/run-dependencies.ts";
import { prepareEngine } from "../../engines/prepare-engine.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { textLogger } from "../../foundation/logger.ts";
import type { ServeOptions } from "../../serve/options.ts";
import { downloadContext } from "../download-context.ts";
import { type CliIo, write } from "../io.ts";
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
}

/** `sluice serve`: serves models over HTTP until a signal ends it. */
export function register(command: Command, io: CliIo): void {
  const collect = (text: string, before: string[]) => [...before, text];
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
    .action((flags: ServeCommandFlags) => serve(flags, io));
}

async function serve(flags: ServeCommandFlags, io: CliIo): Promise<void> {
  const [{ readServerFile }, { startServer }] = await Promise.all([
    import("../../serve/server-file.ts"),
    import("../../serve/server.ts"),
  ]);
  const options = await readServerFile(
    flags.config,
    { models: flags.model, keys: keysOf(flags) },
    io,
  );
  const logger = textLogger((line) => void io.stderr.write(line));
  await untilSignal(io, logger, async (signal, listen) => {
    listen();
    await prepareModels(options, flags.install, io, signal);
    const logAccess = (facts: object) => {
      const time = new Date(io.clock.now()).toISOString();
      io.stderr.write(`${JSON.stringify({ time, ...facts })}\n`);
    };
    const { openStorage } = runDependencies(io, logger);
    const context = { ...engineContext(io, logger), logAccess, openStorage };
    const server = await startServer(options, context);
    try {
      await write(io, readyText(server.addresses, options, flags.json === true));
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    } finally {
      await server.close();
    }
  });
}

function keysOf({ listen, data, insecure, accessLog }: ServeCommandFlags): JsonObject {
  return {
    ...(listen !== undefined && { listen: { inference: listen } }),
    ...(data !== undefined && { dataDirectory: data }),
    ...(insecure && { insecure }),
    ...(!accessLog && { accessLog }),
  };
}

async function prepareModels(
  options: ServeOptions,
  install: boolean,
  io: CliIo,
  signal: AbortSignal,
): Promise<void> {
  for (const { model } of Object.values(options.models)) {
    await prepareEngine(model, downloadContext(io, signal), { install });
  }
}

function readyText(
  addresses: Readonly<Record<string, string>>,
  { models }: ServeOptions,
  isJson: boolean,
): string {
  const names = Object.keys(models);
  if (isJson) return `${JSON.stringify({ addresses, models: names })}\n`;
  const lines = [
    `${names.join(", ")} at ${addresses.inference}/v1`,
    `try: curl ${addresses.inference}/v1/models`,
  ];
  return `${lines.join("\n")}\n`;
}
