import { existsSync } from "node:fs";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describeEngine } from "../../engines/registry.ts";
import { packageFile } from "../../entry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { asLiteral, storedJob } from "../../run/job/worker-variables.ts";

/** What Ray's dashboard takes. */
const maxPackageBytes = 100 * 2 ** 20;
/** Code is packed to a third, data often to less. */
const maxUnpackedBytes = 10 * maxPackageBytes;
/** What of this package a node needs, as in the wheel. */
const software = ["dist", "python", "schema", "package.json"];
const unsent = /^\.|^node_modules$|^__pycache__$|\.d\.ts$|\.pyc$/;
const codeFile = /\.([cm]?[jt]s|py)$/;

interface PackedFile {
  name: string;
  data: Uint8Array;
}

interface Packing {
  files: PackedFile[];
  /** Of the files that were collected. */
  bytes: number;
}

/**
 * The working directory of a job on the cluster: the job, the folders of its modules below `files`
 * by their paths here, and Sluice itself.
 *
 * @throws SluiceError `JOB_INVALID` if that is more than Ray takes.
 */
export async function packJob(job: JobSpec): Promise<{ name: string; archive: Uint8Array }> {
  const files: PackedFile[] = [{ name: "job.json", data: Buffer.from(jobText(job)) }];
  const packing: Packing = { files, bytes: 0 };
  if (job.ray?.software !== "installed") {
    const root = fileURLToPath(packageFile("."));
    if (!existsSync(join(root, "dist/cli/main.cjs"))) {
      throw new SluiceError("RAY_SETUP_FAILED", "the JavaScript of Sluice is not built", {
        hint: "npm run build, or set ray.software: installed",
      });
    }
    for (const name of software) await collect(join(root, name), name, [], packing);
  }
  // It keeps the manifest of Sluice from saying what kind of modules the others are.
  files.push({ name: "files/package.json", data: Buffer.from("{}") });
  const apart = await Promise.all([job.output, ...job.input].map(({ path }) => real(path)));
  for (const folder of moduleFolders(job)) {
    await collect(folder, join("files", folder), apart, packing);
    const manifest = manifestAbove(folder);
    if (manifest !== undefined) await collect(manifest, join("files", manifest), [], packing);
  }
  const archive = await zipped(files);
  if (archive.length > maxPackageBytes)
    throw tooLarge(moduleFolders(job).join(", "), archive.length);
  return { name: `_ray_pkg_${sha256Hex(archive).slice(0, 32)}.zip`, archive };
}

function tooLarge(places: string, bytes: number): SluiceError {
  const sent = `${Math.ceil(bytes / 2 ** 20)} MiB would be sent`;
  const detail = `${places}: ${sent}, and Ray takes 100 MiB`;
  const hint = "put the module into a folder of its own: all of that is sent";
  return new SluiceError("JOB_INVALID", detail, { field: "model", hint });
}

/** The job as a file that gives the same job; secrets in it are names of variables there. */
function jobText(job: JobSpec): string {
  // Values of `env` may hold references: workers fill them in.
  const { env, ...rest } = storedJob(job);
  const literal = (_: string, value: unknown) =>
    typeof value === "string" ? asLiteral(value) : value;
  return JSON.stringify({ ...JSON.parse(JSON.stringify(rest, literal)), env }, undefined, 1);
}

/** The folders of modules that a job names, none within another. */
function moduleFolders({ model }: JobSpec): string[] {
  const folders = new Set<string>();
  const note = (path: string) => {
    if (codeFile.test(path) && existsSync(path)) folders.add(dirname(path));
    return path;
  };
  describeEngine(model).withAbsolutePaths?.(model, note);
  return [...folders].filter(
    (folder) => ![...folders].some((other) => folder !== other && folder.startsWith(`${other}/`)),
  );
}

/** The `package.json` of a folder's project; undefined if it has none, or is it. */
function manifestAbove(folder: string): string | undefined {
  for (let above = folder; ; above = dirname(above)) {
    const manifest = join(above, "package.json");
    if (existsSync(manifest)) return above === folder ? undefined : manifest;
    if (above === dirname(above)) return undefined;
  }
}

/**
 * Adds a file, or all files below a folder except hidden ones, libraries and runs. Links become
 * what they lead to.
 *
 * @param apart real paths of what is not sent.
 * @param above the folders that hold it, by their real paths: a link may lead back to one of them.
 */
async function collect(
  path: string,
  name: string,
  apart: readonly string[],
  packing: Packing,
  above: readonly string[] = [],
): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) {
    packing.bytes += (await stat(path)).size;
    // A link may lead to more than fits into memory.
    if (packing.bytes > maxUnpackedBytes) throw tooLarge(path, packing.bytes);
    packing.files.push({ name, data: await readFile(path) });
    return;
  }
  const folder = await realpath(path);
  if (above.includes(folder) || entries.some((entry) => entry.name === "_sluice")) return;
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const place = join(path, entry.name);
    if (unsent.test(entry.name) || apart.includes(await real(place))) continue;
    const facts = await stat(place).catch(() => undefined);
    if (facts?.isDirectory() || facts?.isFile()) {
      await collect(place, join(name, entry.name), apart, packing, [...above, folder]);
    }
  }
}

/** The path without links; as it is if nothing is there. */
const real = (path: string) => realpath(path).catch(() => path);

/** The same files give the same archive. */
export async function zipped(files: readonly PackedFile[]): Promise<Uint8Array> {
  const { zipSync } = await import("fflate");
  const entries = files.map(({ name, data }) => [name.replace(/^\/+/, ""), data]);
  return zipSync(Object.fromEntries(entries), { mtime: new Date(1980, 0, 1) });
}
