import { jobInvalid } from "../answer-form.ts";

const part = /\{\{|\}\}|\{(\w*)\}|[{}]/g;

/**
 * Compiles a format of Python's kind: `{name}` is replaced by a value, `{{` and `}}` are braces.
 * Values are put in as they are; braces within them mean nothing.
 *
 * @param key of the job file, for messages.
 * @throws SluiceError `JOB_INVALID` for a name that is not among `names`, and for a lone brace.
 * @example
 * compileFormat("{a}! {{", ["a"], "format")({ a: "{b}" }); // "{b}! {"
 */
export function compileFormat<Name extends string>(
  source: string,
  names: readonly Name[],
  key: string,
): (values: Readonly<Record<Name, string>>) => string {
  for (const [text, name] of source.matchAll(part)) {
    if (text === "{{" || text === "}}") continue;
    if (name === undefined) throw jobInvalid(key, `${text} stands alone; write ${text}${text}`);
    if (!names.includes(name as Name)) {
      const known = names.map((one) => `{${one}}`).join(", ");
      throw jobInvalid(key, `${text} is not known; there is ${known}`);
    }
  }
  return (values) =>
    source.replaceAll(part, (text, name?: Name) => (name ? values[name] : text.charAt(0)));
}
