import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256Hex } from "../../foundation/hashing.ts";
import { ifThere } from "../../foundation/system-errors.ts";
import { modelsDirectory } from "./cache.ts";
import { folderBytes } from "./folder-size.ts";

const markEnding = ".complete";

/** The folder of models of the hub, and the file that marks one of them as complete. */
export function hubCache(
  homeDirectory: string,
  { repository, revision }: { repository: string; revision: string },
  variant: string,
): { directory: string; mark: string; lock: string } {
  const directory = join(modelsDirectory(homeDirectory), "onnx");
  const key = sha256Hex(JSON.stringify([repository, revision, variant])).slice(0, 16);
  const mark = join(directory, `${key}${markEnding}`);
  return { directory, mark, lock: `${mark}.lock` };
}

/** The content of a mark: the model's name in a job. */
export function markOf(name: string): string {
  return `${name}\n`;
}

/** The folder of a repository of the hub on this machine, with all its revisions. */
export interface HubFolder {
  /** As `owner/name`. */
  name: string;
  path: string;
  bytes: number;
}

/** The repositories of the hub with a complete model here, by name. */
export async function listHubFolders(homeDirectory: string): Promise<HubFolder[]> {
  const directory = join(modelsDirectory(homeDirectory), "onnx");
  const files = (await ifThere(readdir(directory))) ?? [];
  const names = new Set<string>();
  for (const file of files.filter((each) => each.endsWith(markEnding))) {
    const named = (await readFile(join(directory, file), "utf8")).trim();
    names.add(named.replace(/^hf:/, "").replace(/@.*$/, ""));
  }
  const paths = [...names].sort().map((name) => ({ name, path: join(directory, name) }));
  return Promise.all(paths.map(async (each) => ({ ...each, bytes: await folderBytes(each.path) })));
}
