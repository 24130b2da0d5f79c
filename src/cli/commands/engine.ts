import { resolve } from "node:path";
import { type Command, Option } from "commander";
import type { Hardware } from "../../engines/packages/lock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type CliIo, write, writeJson } from "../io.ts";

const embeddedModel = "smollm2-135m-instruct";

interface MeasureFlags {
  model: string;
  requests: string;
  install: boolean;
  json?: boolean;
}

interface AddOptions {
  hardware?: Hardware;
  json?: boolean;
}

/** `sluice engine list|add|remove|measure`. */
export function register(command: Command, io: CliIo): void {
  command
    .command("list")
    .description("List the engines with packages, and those that are here.")
    .option("--json", "print JSON")
    .action((options: { json?: boolean }) => list(io, options.json === true));
  command
    .command("add")
    .description("Add an engine's package, unless it is already here.")
    .argument("<name>", "the engine, such as llama")
    .addOption(
      new Option("--hardware <kind>", "what computes; default: what this machine has").choices([
        "cpu",
        "cuda",
        "vulkan",
      ]),
    )
    .option("--json", "print JSON")
    .action((name: string, options: AddOptions) => add(name, io, options));
  command
    .command("remove")
    .description("Remove an engine's packages from SLUICE_HOME.")
    .argument("<name>", "the engine, such as llama")
    .action((name: string) => remove(name, io));
  command
    .command("measure")
    .description("Measure which engine is fastest on this machine, for plan and doctor.")
    .option("--model <name>", "a catalog name, or the path of a GGUF file", embeddedModel)
    .option("--requests <number>", "requests to send at once", "32")
    .option("--no-install", "fetch neither engine packages nor the model")
    .option("--json", "print JSON")
    .action((options: MeasureFlags) => measure(options, io));
}

/** Loaded by the called action, so that `--help` and other commands start at once. */
async function load() {
  const [packages, context, progress] = await Promise.all([
    import("../../engines/packages/packages.ts"),
    import("../download-context.ts"),
    import("../../terminal/download-progress.ts"),
  ]);
  return { ...packages, ...context, ...progress };
}

async function list(io: CliIo, json: boolean): Promise<void> {
  const { listEngines, untilStopped, megabytes } = await load();
  const { right, table } = await import("../../terminal/table.ts");
  await untilStopped(io, async (context) => {
    const engines = await listEngines(context);
    if (json) return writeJson(io, engines);
    const rows = engines.map(({ engine, module, version, bytes, located, refusal }) => {
      const state = located ? "here" : refusal ? "not for this machine" : "can be added";
      const place = located?.directory ?? refusal ?? "";
      return [engine, `${module} ${version}`, state, megabytes(bytes), place];
    });
    const columns = ["engine", "package", "state", right("size"), "place"];
    await write(io, `${table(columns, rows).join("\n")}\n`);
  });
}

async function add(name: string, io: CliIo, options: AddOptions): Promise<void> {
  const { addEngine, untilStopped, downloadReporter } = await load();
  const { hardware, json = false } = options;
  const source = name === "openvino" ? "pip" : "npm";
  const reporter = downloadReporter(io);
  await untilStopped(io, async (context) => {
    try {
      const { located, added } = await addEngine(name, context, {
        ...(hardware ? { hardware } : {}),
        onProgress: (bytes) => reporter.report({ name: `engine ${name}`, source, bytes }),
        onWait: () => io.stderr.write(`another process is adding ${name}; waiting for it\n`),
      });
      reporter.clear();
      if (json) return await writeJson(io, { ...located, added });
      const done = added ? `added ${located.version}` : `${located.version} is here already`;
      await write(io, `${name}: ${done}\n${located.directory}\n`);
    } finally {
      reporter.clear();
    }
  });
}

async function remove(name: string, io: CliIo): Promise<void> {
  const { removeEngine, untilStopped, megabytes } = await load();
  await untilStopped(io, async (context) => {
    const bytes = await removeEngine(name, context);
    const done = bytes > 0 ? `removed, ${megabytes(bytes)} free again` : "was not here";
    await write(io, `${name}: ${done}\n`);
  });
}

async function measure(flags: MeasureFlags, io: CliIo): Promise<void> {
  const [{ measureEngines }, { engineContext }, { speedLines }, { untilStopped }] =
    await Promise.all([
      import("../../engines/engine-speed.ts"),
      import("../../api/run-dependencies.ts"),
      import("../engine-speed-view.ts"),
      import("../download-context.ts"),
    ]);
  const requests = Number(flags.requests);
  if (!Number.isSafeInteger(requests) || requests < 1) {
    const said = `--requests must be a whole number of 1 or more, not "${flags.requests}"`;
    throw new SluiceError("USAGE", said);
  }
  const isPath = /^(\.{1,2}\/)|\.gguf$/.test(flags.model) && !flags.model.includes("://");
  const model = isPath ? resolve(io.workingDirectory, flags.model) : flags.model;
  await untilStopped(io, async ({ logger, signal }) => {
    const measurement = await measureEngines(engineContext(io, logger), {
      ...{ model, requests, install: flags.install, signal: signal! },
      onEngine: (engine) => io.stderr.write(`measuring ${engine} with ${flags.model} …\n`),
    });
    if (flags.json) return await writeJson(io, measurement);
    await write(io, `${speedLines(measurement).join("\n")}\n`);
  });
}
