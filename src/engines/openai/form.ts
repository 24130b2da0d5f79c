import type { Json } from "../../foundation/json.ts";
import { type Random, randomInteger } from "../../foundation/random.ts";
import type { StreamedBody } from "./transport.ts";

/** A member of a form; a list has several of one name. */
export type FormField = readonly [name: string, value: Json];

interface FormFile {
  name: string;
  bytes: number;
  /** Its content; called once for each try, and not if it is empty. */
  read(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/**
 * A form with a file, which is read while the form is sent, so that memory stays flat.
 *
 * @param fields the members before the file.
 * @param random draws the text between the parts, so that no file can contain it.
 */
export function formWithFile(
  fields: readonly FormField[],
  random: Random,
  file: FormFile,
): StreamedBody {
  const drawn = Array.from({ length: 4 }, () => randomInteger(random, 2 ** 32).toString(36));
  const boundary = `sluice-${drawn.join("")}`;
  const part = (facts: string, rest: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; ${facts}\r\n${rest}`;
  const parts = fields.map(([name, value]) =>
    part(`name="${quoted(name)}"`, `\r\n${textOf(value)}\r\n`),
  );
  const named = `name="file"; filename="${quoted(file.name)}"`;
  const head = parts.join("") + part(named, "content-type: application/octet-stream\r\n\r\n");
  const tail = `\r\n--${boundary}--\r\n`;
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    contentLength: Buffer.byteLength(head) + file.bytes + Buffer.byteLength(tail),
    async *stream() {
      yield Buffer.from(head);
      if (file.bytes > 0) yield* file.read();
      yield Buffer.from(tail);
    },
  };
}

/** In the browsers' way to write names in a form. */
function quoted(name: string): string {
  return name.replace(/["\r\n]/g, (character) => encodeURIComponent(character));
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
