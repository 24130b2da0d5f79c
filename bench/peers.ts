import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "./setting.ts";

/** What Sluice is measured against lies here; git ignores it. */
export const peersDirectory = join(root, ".cache", "peers");

/** The folder of a peer that `npm run peers` installed, of whichever version. */
export function findPeer(name: string): string | undefined {
  if (!existsSync(peersDirectory)) return undefined;
  const isPeer = (it: string) =>
    it.startsWith(`${name}-`) && /^[\d.]+$/.test(it.slice(name.length + 1));
  const found = readdirSync(peersDirectory).find(isPeer);
  return found === undefined ? undefined : join(peersDirectory, found);
}
