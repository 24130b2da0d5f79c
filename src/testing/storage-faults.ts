import { type Random, randomInteger } from "../foundation/random.ts";
import type { StorageCall, StorageFault } from "./faulty-storage.ts";

const readers: readonly StorageCall["method"][] = ["read", "open", "stat", "list"];

/** True where the call writes something. */
export function isWrite({ method }: StorageCall): boolean {
  return !readers.includes(method) && method !== "abort";
}

/** Draws a way in which the call may go wrong on a store that keeps its promises. */
export function drawStorageFault(
  { method }: StorageCall,
  random: Random,
): StorageFault | undefined {
  const refusal: StorageFault = { kind: "refuse", code: "STORE_FAILED" };
  const noReply: StorageFault = { kind: "lose-reply", reply: "error" };
  const late: StorageFault = { kind: "late", delayMs: random.next() * 2000 };
  const choices: Partial<Record<StorageCall["method"], StorageFault[]>> = {
    createIfAbsent: [
      refusal,
      noReply,
      late,
      { kind: "conflict" },
      { kind: "lose-reply", reply: "unclear" },
      { kind: "lose-reply", reply: "exists" },
    ],
    append: [refusal, noReply, late, { kind: "tear", share: random.next(), code: "STORE_FAILED" }],
    replace: [refusal, noReply, late],
    publish: [refusal, noReply, late],
    remove: [refusal, noReply, late],
    abort: [],
  };
  const possible =
    choices[method] ?? (isWrite({ method, path: "" }) ? [refusal, noReply] : [refusal]);
  return possible[randomInteger(random, possible.length)];
}

/** What a full disk does: appends still take some bytes. */
export function fullDiskFault({ method }: StorageCall, random: Random): StorageFault | undefined {
  const frees: readonly StorageCall["method"][] = ["remove", "close", "sync"];
  if (frees.includes(method)) return undefined;
  if (method === "append") return { kind: "tear", share: random.next(), code: "STORE_FULL" };
  return { kind: "refuse", code: "STORE_FULL" };
}
