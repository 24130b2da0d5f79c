import { type Random, randomInteger } from "../../src/foundation/random.ts";
import type { StorageCall, StorageFault } from "./faulty-storage.ts";

const readers: readonly StorageCall["method"][] = ["read", "open", "stat", "list"];

/**
 * Draws a way in which a call may go wrong on a store that keeps its promises: it is refused, its
 * reply is lost, it comes late, it meets another writer, or an append is torn.
 *
 * @returns undefined where there is nothing to go wrong.
 * @example
 * const random = seededRandom(7);
 * const storage = faultyStorage(memoryStorage(), process, (call) =>
 *   random.next() < 0.05 ? { fault: drawStorageFault(call, random) } : undefined,
 * );
 */
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
  const possible = choices[method] ?? (readers.includes(method) ? [refusal] : [refusal, noReply]);
  return possible[randomInteger(random, possible.length)];
}

/** What a full disk does to a call: appends still take some bytes, other writes none. */
export function fullDiskFault({ method }: StorageCall, random: Random): StorageFault | undefined {
  const passing: readonly StorageCall["method"][] = [
    ...readers,
    "remove",
    "close",
    "sync",
    "abort",
  ];
  if (passing.includes(method)) return undefined;
  if (method === "append") return { kind: "tear", share: random.next(), code: "STORE_FULL" };
  return { kind: "refuse", code: "STORE_FULL" };
}
