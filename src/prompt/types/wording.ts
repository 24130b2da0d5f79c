import { compileFormat } from "./format.ts";
import type { RowFields } from "./row-fields.ts";

/** Words around the parts of an instruction, as formats with {instruction}, {input}, {system}. */
export interface Wording {
  /** Left out where the system text is empty. */
  system: string;
  turn: string;
  turnWithoutInput: string;
}

/** The parts of one row's instruction. */
export interface Instruction {
  system: string;
  instruction: string;
  /** Empty = the row has none. */
  input: string;
}

/** Axolotl's prompt styles: what stands after the colon in `alpaca:chat`. */
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
    // The missing line breaks are Axolotl's.
    turn: "<|user|>\n{instruction}<|end|>{input}<|assistant|>",
    turnWithoutInput: "<|user|>\n{instruction}<|end|>\n<|assistant|>\n",
  },
} as const satisfies Record<string, Wording>;

/** The same turns without the words of a style before the system text. */
export function withSystem(wording: Wording, system: string): Wording {
  return { ...wording, system };
}

/**
 * The text of rows whose parts `parts` reads.
 *
 * @param key of the job file, for messages about the formats.
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
