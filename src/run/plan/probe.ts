import { schemeOf } from "../../data/storage/open.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { probePrefix } from "../directory/layout.ts";
import { createOnce, readJson, recordBytes } from "../directory/records.ts";
import type { JobSpec } from "../job/schema.ts";

const storeProbeRounds = 12;

/**
 * Rounds on a file system. It always refuses a second link() by one lock, or never: luck has no
 * part, and each of twenty rounds would add 10 ms to a run's start.
 */
const probeRounds = 1;

const probeCreators = 20;

/**
 * Refuses a store that does not let exactly one creator win. Twenty creators race for one key,
 * several times: a store that passes two writes in a row may still fail the race, though not each
 * one, and one that ignores the condition lets all of them win. If a store is right by luck two of
 * three times, one in 130 such probes of an object store finds no fault; if it fails every other
 * race, one in 4096. A store without such an operation is not probed.
 *
 * @throws SluiceError `STORE_UNSUITABLE`.
 */
export async function probeStore(storage: Storage, uniqueId: string): Promise<void> {
  if (storage.createsOnce === false) return;
  const fleeting = withoutSync(storage);
  const isFar = schemeOf(storage.location) !== undefined;
  const rounds = isFar ? storeProbeRounds : probeRounds;
  const checks: Promise<void>[] = [];
  for (let round = 0; round < rounds; round++) {
    const path = `${probePrefix}${uniqueId}-${round}.json`;
    const ids = Array.from({ length: probeCreators }, (_, at) => `${uniqueId}-${at}`);
    const creations = ids.map((id) => create(fleeting, path, id));
    // All creators finish before an error is thrown, so that none writes later.
    const settled = await Promise.allSettled(creations);
    const check = Promise.all(creations).then((race) => checkRace(storage, path, race));
    check.catch(() => {});
    checks.push(check);
    // The probe fails by it: further rounds would only ask a store again that refuses.
    if (settled.some(({ status }) => status === "rejected")) break;
  }
  await Promise.allSettled(checks);
  await Promise.all(checks);
}

type Creates = Pick<Storage, "createIfAbsent" | "read">;

/** The outcome of a creator; `standing` is the record that it read, if it had to. */
interface Creation {
  won: boolean;
  standing?: string;
}

async function create(storage: Creates, path: string, creator: string): Promise<Creation> {
  const record = { creator };
  const outcome = await storage
    .createIfAbsent(path, recordBytes(record))
    // Then it may have been carried out all the same.
    .catch(() => "unclear");
  if (outcome !== "unclear") return { won: outcome === "created" };
  const { won, record: standing } = await createOnce(storage, path, record, (it) => it.creator);
  return { won, standing: standing.creator };
}

/** @throws SluiceError `STORE_UNSUITABLE` unless exactly one won, and its record stands. */
async function checkRace(storage: Storage, path: string, race: readonly Creation[]): Promise<void> {
  const read = async () => (await readJson<{ creator: string }>(storage, path))?.creator;
  const standing = new Set([await read()]);
  // A late creator must find the winner's file, whatever the store replied.
  const creations = [...race, await create(withoutSync(storage), path, "late")];
  standing.add(await read());
  for (const creation of creations) if (creation.standing) standing.add(creation.standing);
  const winners = creations.filter(({ won }) => won).length;
  await storage.remove(path);
  if (winners === 1 && standing.size === 1) return;
  throw new SluiceError(
    "STORE_UNSUITABLE",
    `${winners} of ${creations.length} creators of one file believe that they made it`,
    { file: storage.location, ...hintFor(storage) },
  );
}

/**
 * Refuses to continue in another way a run that began on a store without conditional writes: its
 * workers would wait for a coordinator to commit, and coordinators for workers.
 *
 * @throws SluiceError `USAGE`.
 */
export function assertBegunSo(
  { createsOnce, location }: Storage,
  { store }: Pick<JobSpec, "store">,
): void {
  const isWeak = createsOnce === false || schemeOf(location) === undefined;
  if (isWeak || store?.conditional !== "none") return;
  throw new SluiceError("USAGE", "the run was begun with store.conditional: none", {
    file: location,
    hint: "give --store.conditional none, or store.conditional in the job",
  });
}

function hintFor({ location }: Storage): { hint?: string } {
  if (schemeOf(location) === undefined) return {};
  const weaker = "or set store.conditional to none: docs/object-stores.md says what that costs";
  return { hint: `take a store with conditional writes, ${weaker}` };
}

/** Creates that need not last: syncing a hundred probe files to disk would prove nothing more. */
function withoutSync(storage: Storage): Creates {
  return {
    createIfAbsent: (path, data) => storage.createIfAbsent(path, data, { isLasting: false }),
    read: (path) => storage.read(path),
  };
}
