import { mkdir, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { Command } from "commander";
import { withStoreErrors } from "../../data/storage/local-errors.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type CliIo, write } from "../io.ts";

interface ArchiveFlags {
  modelName: string;
  version: string;
  handler: string;
  serializedFile?: string;
  modelFile?: string;
  extraFiles?: string;
  requirementsFile?: string;
  configFile?: string;
  runtime?: string;
  exportPath: string;
  force?: boolean;
}

/** `sluice archive`: makes a model archive, as `torch-model-archiver` does. */
export function register(command: Command, io: CliIo): void {
  command
    .requiredOption("--model-name <name>", "name of the model, and of the archive")
    .option("-v, --version <version>", "version of the model", "1.0")
    .requiredOption(
      "--handler <file>",
      "your code: handler.py, handler.ts, handler.js; :name chooses a function or an export",
    )
    .option("--serialized-file <file>", "weights of the model")
    .option("--model-file <file>", "code of the model's architecture")
    .option("--extra-files <files>", "further files, with commas between them")
    .option("-r, --requirements-file <file>", "requirements.txt, which is not installed")
    .option("-c, --config-file <file>", "model-config.yaml: workers, batches, times")
    .option("--runtime <name>", "python or node; default: by the handler's file")
    .option("--export-path <folder>", "folder of the archive", ".")
    .option("-f, --force", "replace an archive that is there")
    .action((flags: ArchiveFlags) => archive(flags, io));
}

async function archive(flags: ArchiveFlags, io: CliIo): Promise<void> {
  const { modelName, version, exportPath, force } = flags;
  if (!/^[A-Za-z][\w.-]*$/.test(modelName)) {
    throw usage("--model-name must be a letter, then letters, digits and ._-");
  }
  const handler = /^(.*\.\w+)(?::(\w+))?$/.exec(flags.handler);
  if (!handler) throw usage("--handler must be a file, such as handler.py");
  const [, file = "", entry] = handler;
  const paths = [file, flags.serializedFile, flags.modelFile, flags.requirementsFile]
    .concat(
      flags.configFile,
      flags.extraFiles?.split(",").map((path) => path.trim()),
    )
    .filter((path) => path !== undefined && path !== "") as string[];
  const files = await Promise.all(paths.map((path) => fileAt(path, io)));
  const names = files.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) < at);
  if (twice !== undefined) throw usage(`two files have the name ${twice}`);
  const folder = resolve(io.workingDirectory, exportPath);
  const target = join(folder, `${modelName}.mar`);
  if (!force && (await exists(target))) {
    throw new SluiceError("OUTPUT_OCCUPIED", `${modelName}.mar`, { hint: "--force replaces it" });
  }
  await withStoreErrors(folder, () => mkdir(folder, { recursive: true }));
  const [{ writeArchive }, { manifestSchema }] = await Promise.all([
    import("../../serve/torchserve/archive.ts"),
    import("../../serve/torchserve/archive-options.ts"),
  ]);
  const named = (path: string | undefined) => (path === undefined ? undefined : basename(path));
  const manifest = manifestSchema.safeParse({
    createdOn: writtenTime(io.clock.now()),
    runtime: flags.runtime ?? (/\.[mc]?[jt]s$/.test(file) ? "node" : "python"),
    model: {
      modelName,
      serializedFile: named(flags.serializedFile),
      handler: entry === undefined ? basename(file) : `${basename(file)}:${entry}`,
      modelFile: named(flags.modelFile),
      modelVersion: version,
      requirementsFile: named(flags.requirementsFile),
      configFile: named(flags.configFile),
    },
    archiverVersion: "0.12.0",
  });
  if (!manifest.success) throw usage("--runtime must be python or node");
  await writeArchive(target, manifest.data, files);
  await write(io, `${target}\n`);
}

async function fileAt(path: string, io: CliIo): Promise<{ path: string; name: string }> {
  const whole = resolve(io.workingDirectory, path);
  const found = await stat(whole).catch(() => undefined);
  if (!found?.isFile()) throw usage(`there is no file ${path}`);
  return { path: whole, name: basename(path) };
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );

const usage = (detail: string) =>
  new SluiceError("USAGE", detail, { hint: "see sluice archive --help" });

/** A time as TorchServe's archiver writes it: `21/11/2026 06:33:15`. */
function writtenTime(epochMs: number): string {
  const [date = "", time = ""] = new Date(epochMs).toISOString().slice(0, 19).split("T");
  return `${date.split("-").toReversed().join("/")} ${time}`;
}
