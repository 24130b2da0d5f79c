import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";
import { jsonFormat } from "./json.ts";
import { jsonlFormat } from "./jsonl.ts";
import type { RowFormat } from "./row-format.ts";
import { textFormat } from "./text.ts";

/** Lines of an OpenAI batch file: JSONL whose rows are requests, so that no ending tells it. */
const openaiBatchFormat: RowFormat = { ...jsonlFormat(), name: "openai-batch", extensions: [] };

const formats: readonly RowFormat[] = [
  jsonlFormat(),
  jsonFormat(),
  textFormat(),
  openaiBatchFormat,
];

/** Names of all formats, as `input.format` takes them. */
export const formatNames: readonly string[] = formats.map((format) => format.name);

/**
 * The format of a file: the named one, else that of its ending.
 *
 * @throws SluiceError `INPUT_FORMAT` with the nearest known name or ending.
 * @example
 * formatFor("data/reviews.jsonl").name; // "jsonl"
 * formatFor("data/reviews.log", "text").name; // "text"
 */
export function formatFor(path: string, namedFormat?: string): RowFormat {
  if (namedFormat !== undefined) return formatNamed(namedFormat, path);
  const name = basename(path).toLowerCase();
  const found = formats.find(({ extensions }) => extensions.some((end) => name.endsWith(end)));
  if (found) return found;
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 ? name.slice(dot) : "";
  const endings = formats.flatMap((format) => format.extensions);
  const detail = ending === "" ? "its name has no ending" : `ending ${ending}`;
  throw unknownFormat(detail, path, nearest(ending, endings));
}

function formatNamed(name: string, path: string): RowFormat {
  const found = formats.find((format) => format.name === name);
  if (found) return found;
  throw unknownFormat(`format ${name}`, path, nearest(name, formatNames));
}

function unknownFormat(detail: string, file: string, suggestion: string | undefined): SluiceError {
  const known = `set input.format to one of ${formatNames.join(", ")}`;
  const hint = suggestion ? `did you mean ${suggestion}? Else ${known}` : known;
  return new SluiceError("INPUT_FORMAT", detail, { file, hint });
}
