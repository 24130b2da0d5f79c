import { fixedFolder } from "../../data/sources/glob.ts";
import { schemeOf } from "../../data/storage/open.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JobSpec } from "../../run/job/schema.ts";

/** The local places that workers read and write, with their keys. */
export function localPlaces(job: JobSpec): [field: string, place: string][] {
  const places: [field: string, place: string | undefined][] = [
    ["output.path", job.output.path],
    ...job.input.map(({ path }, at): [string, string] => [`input.${at}.path`, fixedFolder(path)]),
    ["cache.path", job.cache?.path],
    ["preparedDir", job.preparedDir],
    ...mountsOf(job),
  ];
  return places.filter(
    (each): each is [string, string] => each[1] !== undefined && schemeOf(each[1]) === undefined,
  );
}

function mountsOf({ model }: JobSpec): [string, string][] {
  if (model.engine !== "program") return [];
  return model.mounts.map(({ location }, at) => [`model.mounts.${at}.location`, location]);
}

/**
 * @param isSeen whether machines of workers see a place of this one.
 * @param hint what to do about one that they do not see.
 * @throws SluiceError `DIRECTORY_NOT_SHARED` for the first of those.
 */
export function assertSeen(job: JobSpec, isSeen: (place: string) => boolean, hint: string): void {
  for (const [field, place] of localPlaces(job)) {
    if (isSeen(place)) continue;
    const detail = `${place} is a local path, and workers of backend ${job.backend} do not see it`;
    throw new SluiceError("DIRECTORY_NOT_SHARED", detail, { field, hint });
  }
}
