/**
 * A path as messages, dead letters and events show it. The query of a web address is left out: it
 * may hold a signature, which only the plan and the server may see.
 *
 * @example
 * shownPath("https://example.org/rows.jsonl?token=secret"); // "https://example.org/rows.jsonl"
 */
export function shownPath(path: string): string {
  return /^https?:/i.test(path) ? path.replace(/[?#].*$/s, "") : path;
}

/**
 * A word of a shell's line, such as a path in a command that a message advises.
 *
 * @example
 * quotedWord("out/my run"); // "'out/my run'"
 */
export function quotedWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

const address = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>`\\]+/gi;
const parameter = /([?&#;])([^=&#;?]*)(=?)([^&#;]*)/g;

/** Names of secrets: HF_TOKEN, AWS_SECRET_ACCESS_KEY, api-key, sig. */
export const secretName =
  /(token|key|secret|password|passwd|passphrase|credentials?|auth|_pat|sig|signature)$/i;

/** Values of a query that hide nothing: short words and numbers. */
const plainValue = /^([a-z]{0,16}|[\d.:,-]{0,16})$/i;

/**
 * A text without the secrets in its web addresses. Left out are user and password, and every value
 * of a query that is not a plain word or number, whatever its name.
 *
 * @example
 * shownText("see https://me:pw@h/a?page=2&x=Zm9v1");
 * // "see https://[redacted]@h/a?page=2&x=[redacted]"
 */
export function shownText(text: string): string {
  if (!text.includes("://")) return text;
  return text.replace(address, (found) => {
    const [, head = found, query = ""] = /^([^?#]*)(.*)$/s.exec(found) ?? [];
    const host = head.replace(/\/\/[^/]*@/, "//[redacted]@");
    return host + query.replace(parameter, shownParameter);
  });
}

function shownParameter(all: string, mark: string, name: string, is: string, value: string) {
  // A signature may stand in the query without a name.
  if (is === "") return plainValue.test(name) ? all : `${mark}[redacted]`;
  if (value === "" || (plainValue.test(value) && !secretName.test(name))) return all;
  // Punctuation at the end does not belong to the value.
  return `${mark}${name}=[redacted]${/[)\].,]*$/.exec(value)![0]}`;
}
