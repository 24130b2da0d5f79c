/**
 * How what grows is stored where nothing can be appended to: the object `log.jsonl` that has an
 * appender is the objects `log.jsonl!/00000000`, `log.jsonl!/00000001` … one after another. An
 * object of the plain name, where there is one, is the whole and stands for them.
 *
 * `!` comes before every other character that paths have, so that listings keep their order; and
 * no store refuses it for a key below another key.
 */
const mark = "!/";
const digits = 8;
const uploadMark = "!upload-";

/** True for a path that may have been appended to: no other has segments. */
export function mayGrow(path: string): boolean {
  return path.endsWith(".jsonl");
}

/** What all segments of a path begin with. */
export function segmentPrefix(path: string): string {
  return `${path}${mark}`;
}

/** Path of segment `number`, counted from 0. */
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

/** The path and number that a segment's path holds, or undefined where it is none. */
export function segmentOf(path: string): { path: string; number: number } | undefined {
  const at = path.length - digits - mark.length;
  if (at <= 0 || !path.startsWith(mark, at)) return undefined;
  const name = path.slice(-digits);
  return /^\d+$/.test(name) ? { path: path.slice(0, at), number: Number(name) } : undefined;
}

/** The name under which an upload that nobody ended is told and removed. */
export function uploadPath(path: string, uploadId: string): string {
  return `${path}${uploadMark}${uploadId}`;
}

/** The path and upload that such a name holds. */
export function uploadOf(path: string): { path: string; uploadId: string } | undefined {
  const at = path.lastIndexOf(uploadMark);
  if (at < 0) return undefined;
  return { path: path.slice(0, at), uploadId: path.slice(at + uploadMark.length) };
}
