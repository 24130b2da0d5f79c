import { type PromptType, textType } from "./prompt-type.ts";
import type { RowFields } from "./row-fields.ts";
import { type Instruction, instructionText, styles } from "./wording.ts";

const withInput = (fields: RowFields): Instruction => ({
  system: fields.text("system"),
  instruction: fields.text("instruction"),
  input: fields.optionalText("input"),
});

const openOrca = (fields: RowFields): Instruction => ({
  system: fields.text("system_prompt"),
  instruction: fields.text("question"),
  input: "",
});

const openOrcaWording = {
  system: "### System:\n{system}\n",
  turn: "",
  turnWithoutInput: "### Human:\n{instruction}\n### Assistant:\n",
};

const userTurn = instructionText(
  {
    system: "",
    turn: "",
    turnWithoutInput: "### User:\n{instruction}\n\n### Response:\n",
  },
  openOrca,
);

/** Instructions whose system text is a field of the row. */
export const alpacaWithSystemTypes: readonly PromptType[] = [
  textType(
    ["alpaca_w_system", "alpaca_w_system.load", "alpaca_w_system.load_chat"],
    instructionText(styles.chat, withInput),
  ),
  textType(["alpaca_w_system.load_instruct"], instructionText(styles.instruct, withInput)),
  textType(["alpaca_w_system.load_open_orca"], instructionText(openOrcaWording, openOrca)),
  textType(["alpaca_w_system.load_open_orca_chatml"], instructionText(styles.chatml, openOrca)),
  // Unlike the others, an empty system text keeps its heading.
  textType(
    ["orcamini", "orcamini.load"],
    (fields) => `### System:\n${fields.text("system_prompt")}\n\n${userTurn(fields)}`,
  ),
];
