/**
 * Names of the segments that stand for an appended object in a store without appends. `log.jsonl`
 * is stored as `log.jsonl!/00000000`, `log.jsonl!/00000001` and so on. If an object of the plain
 * name exists, it is the whole and the segments do not count.
 *
 * `!` sorts before every other character of paths, so listings keep their order. Every store
 * accepts it in keys.
 */
const mark = "!/";
const digits = 8;
const uploadMark = "!upload-";

/** True for a path that may have segments. */
export function mayGrow(path: string): boolean {
  return path.endsWith(".jsonl");
}

export function segmentPrefix(path: string): string {
  return `${path}${mark}`;
}

/** Path of segment `number`, from 0. */
export function segmentPath(path: string, number: number): string {
  return `${path}${mark}${segmentName(number)}`;
}

/** Last part of a segment's path. */
export function segmentName(number: number): string {
  return String(number).padStart(digits, "0");
}

/** The path that a segment belongs to; any other path unchanged. */
export function wholePath(path: string): string {
  return segmentOf(path)?.path ?? path;
}

/** The path and number in a segment's path; undefined for any other path. */
export function segmentOf(path: string): { path: string; number: number } | undefined {
  const at = path.length - digits - mark.length;
  if (at <= 0 || !path.startsWith(mark, at)) return undefined;
  const name = path.slice(-digits);
  return /^\d+$/.test(name) ? { path: path.slice(0, at), number: Number(name) } : undefined;
}

/** The name under which `leftovers` lists an unfinished upload and `remove` ends it. */
export function uploadPath(path: string, uploadId: string): string {
  return `${path}${uploadMark}${uploadId}`;
}

/** The path and upload id in such a name; undefined for any other path. */
export function uploadOf(path: string): { path: string; uploadId: string } | undefined {
  const at = path.lastIndexOf(uploadMark);
  if (at < 0) return undefined;
  return { path: path.slice(0, at), uploadId: path.slice(at + uploadMark.length) };
}
