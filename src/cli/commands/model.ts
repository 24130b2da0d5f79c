import type { Command } from "commander";
import { SluiceError } from "../../foundation/errors.ts";
import { type CliIo, write, writeJson } from "../io.ts";

interface OutputOptions {
  json?: boolean;
}

/** `sluice model list|pull|path|remove|verify`. */
export function register(command: Command, io: CliIo): void {
  const naming = "a catalog name, hf:owner/repo/file.gguf, an https:// address or a path";
  const here = `${naming}; or owner/name of a model for transformers`;
  command
    .command("list")
    .description("List the models known by name and those on this machine.")
    .option("--json", "print JSON")
    .action((options: OutputOptions) => list(io, options));
  command
    .command("pull")
    .description("Fetch a model, unless it is already here.")
    .argument("<name>", naming)
    .option("--json", "print JSON")
    .action((name: string, options: OutputOptions) => pull(name, io, options));
  command
    .command("path")
    .description("Print the path of a model's file or folder.")
    .argument("<name>", here)
    .action((name: string) => path(name, io));
  command
    .command("remove")
    .description("Remove a model from the cache.")
    .argument("<name>", here)
    .action((name: string) => remove(name, io));
  command
    .command("verify")
    .description("Compute the sha256 of a model's file and compare it with the pinned one.")
    .argument("<name>", naming)
    .option("--json", "print JSON")
    .action((name: string, options: OutputOptions) => verify(name, io, options));
}

/** Loaded by the called action, so that `--help` and other commands start at once. */
async function load() {
  const [models, context, progress] = await Promise.all([
    import("../../engines/models/models.ts"),
    import("../download-context.ts"),
    import("../../terminal/download-progress.ts"),
  ]);
  return { ...models, ...context, ...progress };
}

async function list(io: CliIo, { json = false }: OutputOptions): Promise<void> {
  const { listModels, untilStopped, megabytes } = await load();
  const { right, table } = await import("../../terminal/table.ts");
  await untilStopped(io, async (context) => {
    const models = await listModels(context);
    if (json) return writeJson(io, models);
    const rows = models.map(({ name, bytes, path: place, entry }) => {
      const state = place === undefined ? "can be pulled" : "here";
      return [
        name,
        megabytes(bytes),
        state,
        entry?.licence ?? "",
        entry?.description ?? place ?? "",
      ];
    });
    const columns = ["name", right("size"), "state", "licence", "description"];
    await write(io, `${table(columns, rows).join("\n")}\n`);
  });
}

async function pull(name: string, io: CliIo, { json = false }: OutputOptions): Promise<void> {
  const { pullModel, untilStopped, downloadReporter, megabytes } = await load();
  const reporter = downloadReporter(io);
  await untilStopped(io, async (context) => {
    try {
      const { model, fetched } = await pullModel(name, context, {
        onProgress: reporter.report,
        onWait: () => io.stderr.write(`another process is fetching ${name}; waiting for it\n`),
      });
      reporter.clear();
      if (json) return await writeJson(io, { ...model, fetched });
      const source = model.source === "file" ? "a file of yours" : `from ${model.source}`;
      const done = fetched ? `fetched ${megabytes(model.bytes)} ${source}` : "is here already";
      await write(io, `${name}: ${done}\n${model.path}\n`);
    } finally {
      reporter.clear();
    }
  });
}

async function path(name: string, io: CliIo): Promise<void> {
  const { modelPath, untilStopped } = await load();
  await untilStopped(io, async (context) => {
    await write(io, `${await modelPath(name, context)}\n`);
  });
}

async function remove(name: string, io: CliIo): Promise<void> {
  const { removeModel, untilStopped, megabytes } = await load();
  await untilStopped(io, async (context) => {
    const bytes = await removeModel(name, context);
    const done = bytes > 0 ? `removed, ${megabytes(bytes)} free again` : "was not here";
    await write(io, `${name}: ${done}\n`);
  });
}

async function verify(name: string, io: CliIo, { json = false }: OutputOptions): Promise<void> {
  const { verifyModel, untilStopped } = await load();
  await untilStopped(io, async (context) => {
    const check = await verifyModel(name, context);
    const { sha256, expectedSha256, isIntact } = check;
    if (json) await writeJson(io, check);
    else if (isIntact) {
      const claim = expectedSha256 === undefined ? "nothing to compare it with" : "intact";
      await write(io, `${name}: ${claim}, sha256 ${sha256}\n`);
    }
    if (isIntact) return;
    throw new SluiceError("MODEL_CORRUPT", `sha256 is ${sha256}, not ${expectedSha256}`, {
      file: check.path,
      hint: `run sluice model remove ${name}, then sluice model pull ${name}`,
    });
  });
}
