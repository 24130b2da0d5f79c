import { schemeOf } from "../data/storage/open.ts";
import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import { probePrefix } from "./layout.ts";
import { createOnce } from "./records.ts";

/**
 * Refuses a store that does not let exactly one creator win. Twenty creators race for one key, five
 * times: a store that passes two writes in a row may still fail the race, and one that ignores the
 * condition lets all of them win. A store that is said to have no such operation is not asked.
 *
 * @throws SluiceError `STORE_UNSUITABLE`.
 */
export async function probeStore(storage: Storage, uniqueId: string): Promise<void> {
  if (storage.createsOnce === false) return;
  const fleeting = withoutSync(storage);
  for (let round = 0; round < limits.probeRounds; round++) {
    const path = `${probePrefix}${uniqueId}-${round}.json`;
    const creators = Array.from({ length: limits.probeCreators }, (_, creator) =>
      createOnce(fleeting, path, { creator: `${uniqueId}-${creator}` }, (it) => it.creator),
    );
    // All of them are done before one's failure is told: nobody writes there any more.
    await Promise.allSettled(creators);
    const outcomes = await Promise.all(creators);
    // One who comes when all is over must find the winner's file, whatever the store replied.
    const late = { creator: `${uniqueId}-late` };
    outcomes.push(await createOnce(fleeting, path, late, (it) => it.creator));
    const winners = outcomes.filter(({ won }) => won).length;
    const names = new Set(outcomes.map(({ record }) => record.creator));
    await storage.remove(path);
    if (winners !== 1 || names.size !== 1) {
      throw new SluiceError(
        "STORE_UNSUITABLE",
        `${winners} of ${outcomes.length} creators of one file believe that they made it`,
        { file: storage.location, ...hintFor(storage) },
      );
    }
  }
}

function hintFor({ location }: Storage): { hint?: string } {
  if (schemeOf(location) === undefined) return {};
  const weaker = "or set store.conditional to none: docs/object-stores.md says what that costs";
  return { hint: `take a store with conditional writes, ${weaker}` };
}

/** Creates that need not last: forcing a hundred probe files to disk would prove nothing more. */
function withoutSync(storage: Storage): Pick<Storage, "createIfAbsent" | "read"> {
  return {
    createIfAbsent: (path, data) => storage.createIfAbsent(path, data, { isLasting: false }),
    read: (path) => storage.read(path),
  };
}
