import { readFile, readlink } from "node:fs/promises";

/**
 * Text that names this process among all that share a kernel: boot, process namespace, number and
 * start time. Undefined where `/proc` does not tell.
 */
export async function processMark(): Promise<string | undefined> {
  try {
    const id = await readlink("/proc/self");
    const started = await startTime(id);
    return started && [...(await namespace()), id, started].join(" ");
  } catch {
    return undefined;
  }
}

/**
 * True when the process that wrote `mark` surely runs no more: it shares our boot and namespace,
 * and its number is free or taken by another. False where that cannot be known.
 */
export async function isProcessGone(mark: string | undefined): Promise<boolean> {
  if (mark === undefined) return false;
  const [boot, space, id, started] = mark.split(" ");
  try {
    const [ourBoot, ourSpace] = await namespace();
    if (boot !== ourBoot || space !== ourSpace || !/^\d+$/.test(id ?? "")) return false;
  } catch {
    return false;
  }
  return (await startTime(id!)) !== started;
}

async function namespace(): Promise<[boot: string, space: string]> {
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
  return [boot.trim(), await readlink("/proc/self/ns/pid")];
}

/** Field 22 of `stat`, counted after the name, which may hold spaces and brackets. */
async function startTime(id: string): Promise<string | undefined> {
  try {
    const text = await readFile(`/proc/${id}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
