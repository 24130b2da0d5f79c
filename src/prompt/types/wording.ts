import { jobInvalid } from "../answer-form.ts";
import type { RowFields } from "./row-fields.ts";

/** The text around the parts of an instruction: formats with {instruction}, {input}, {system}. */
export interface Wording {
  /** Left out if the system text is empty. */
  system: string;
  turn: string;
  turnWithoutInput: string;
}

/** The parts of a row's instruction. */
export interface Instruction {
  system: string;
  instruction: string;
  /** Empty if the row has none. */
  input: string;
}

/** Axolotl's prompt styles: the name after the colon in `alpaca:chat`. */
export const styles = {
  instruct: {
    system: "{system}\n\n",
    turn: "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n",
    turnWithoutInput: "### Instruction:\n{instruction}\n\n### Response:\n",
  },
  chat: {
    system: "SYSTEM: {system}\n",
    turn: "USER: {instruction}\n{input}\nASSISTANT:",
    turnWithoutInput: "USER: {instruction}\nASSISTANT:",
  },
  chatml: {
    system: "<|im_start|>system\n{system}<|im_end|>\n",
    turn: "<|im_start|>user\n{instruction}\n{input}<|im_end|>\n<|im_start|>assistant\n",
    turnWithoutInput: "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n",
  },
  phi: {
    system: "<|system|>\n{system}<|end|>\n",
    // Axolotl has no line breaks here either.
    turn: "<|user|>\n{instruction}<|end|>{input}<|assistant|>",
    turnWithoutInput: "<|user|>\n{instruction}<|end|>\n<|assistant|>\n",
  },
} as const satisfies Record<string, Wording>;

/** The same turns, but with `system` as the whole system text. */
export function withSystem(wording: Wording, system: string): Wording {
  return { ...wording, system };
}

/**
 * Makes texts of rows whose parts are read by `parts`.
 *
 * @param key in the job file, for messages about the formats.
 * @throws SluiceError `JOB_INVALID` for a format with an unknown name.
 */
export function instructionText(
  wording: Wording,
  parts: (fields: RowFields) => Instruction,
  key = "type",
): (fields: RowFields) => string {
  const system = compileFormat(wording.system, ["system"], `${key}.system_format`);
  const turn = compileFormat(wording.turn, ["instruction", "input"], `${key}.format`);
  const bare = compileFormat(wording.turnWithoutInput, ["instruction"], `${key}.no_input_format`);
  return (fields) => {
    const values = parts(fields);
    const before = values.system === "" ? "" : system(values);
    return before + (values.input === "" ? bare(values) : turn(values));
  };
}

const part = /\{\{|\}\}|\{(\w*)\}|[{}]/g;

/**
 * Compiles a format as in Python: `{name}` is replaced by a value; `{{` and `}}` are literal
 * braces. Braces in values have no meaning.
 *
 * @param key in the job file, for messages.
 * @throws SluiceError `JOB_INVALID` for a name that is not among `names`, and for a lone brace.
 * @example
 * compileFormat("{a}! {{", ["a"], "format")({ a: "{b}" }); // "{b}! {"
 */
function compileFormat<Name extends string>(
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
