import type { WrittenJson } from "../../foundation/exact-json.ts";
import type { TextMessage } from "../../foundation/inference.ts";
import { isObject } from "../value-text.ts";
import type { RowFields } from "./row-fields.ts";

/** Possible keys of a message. The first one that the row's first message has is used. */
export type KeyNames = readonly [string, ...string[]];

/** Where a row has its messages. */
export interface MessageKeys {
  /** Field of the list of messages. */
  list: string;
  role: KeyNames;
  content: KeyNames;
  /** The model's name for each role in the data; other roles keep their names. */
  roles: Readonly<Record<string, string>>;
}

/**
 * The messages of a row. In a list of texts, each text is a user's turn, as in MT-Bench.
 *
 * @throws SluiceError `VARIABLE_MISSING` or `FIELD_TYPE`, which names the field:
 *   `messages[2].role`.
 */
export function readMessages(fields: RowFields, keys: MessageKeys): TextMessage[] {
  const list = fields.list(keys.list);
  if (list.length > 0 && list.every((element) => typeof element === "string")) {
    return list.map((content) => ({ role: "user", content }));
  }
  const messages = fields.objects(keys.list);
  const [role, content] = [keys.role, keys.content].map(
    (names) => names.find((name) => messages[0]?.has(name)) ?? names[0],
  );
  return messages.map((message) => ({
    role: roleOf(message, role!, keys.roles),
    content: contentOf(message, content!),
  }));
}

function roleOf(
  message: RowFields,
  role: string,
  roles: MessageKeys["roles"],
): TextMessage["role"] {
  const given = message.text(role);
  const known = Object.hasOwn(roles, given) ? roles[given]! : given;
  if (known === "user" || known === "assistant" || known === "system") return known;
  const names = [...new Set([...Object.keys(roles), "user", "assistant", "system"])];
  throw message.wrong(role, `the role ${given} is not among ${names.join(", ")}`);
}

/** The text of a message, or of its parts: `[{"type": "text", "text": "…"}]`. */
function contentOf(message: RowFields, content: string): string {
  const value = message.value(content);
  if (!Array.isArray(value)) return message.text(content);
  return value.map((part, at) => partText(message, `${content}[${at}]`, part)).join("");
}

function partText(message: RowFields, path: string, part: WrittenJson): string {
  if (isObject(part) && part.type === "text" && typeof part.text === "string") return part.text;
  throw message.wrong(path, "it reads parts of type text, and finds another");
}
