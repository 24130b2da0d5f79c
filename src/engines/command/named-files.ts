import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { hashFiles } from "../models/part-file.ts";
import type { CommandModelOptions } from "./options.ts";

/**
 * One digest of the files in a command line, such as a script; undefined if there are none. Folders
 * do not count.
 *
 * @throws Error of the file system if one exists and cannot be read.
 */
export async function namedFilesSha256({
  command,
  args,
  workingDirectory = ".",
}: CommandModelOptions): Promise<string | undefined> {
  const named = command.includes("/") ? [command, ...args] : args;
  const files: string[] = [];
  for (const path of named.map((each) => resolve(workingDirectory, String(each)))) {
    if (await isFile(path)) files.push(path);
  }
  return files.length === 0 ? undefined : (await hashFiles(files)).sha256;
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
