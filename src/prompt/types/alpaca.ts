import { type PromptType, textType } from "./prompt-type.ts";
import type { RowFields } from "./row-fields.ts";
import { type Instruction, instructionText, styles, type Wording, withSystem } from "./wording.ts";

/** The system text of a type, for rows with an input and for rows without. */
interface SystemText {
  withInput: string;
  withoutInput: string;
}

const sameSystem = (text: string): SystemText => ({ withInput: text, withoutInput: text });

const alpacaSystem: SystemText = {
  withInput:
    "Below is an instruction that describes a task, paired with an input that provides further " +
    "context. Write a response that appropriately completes the request.",
  withoutInput:
    "Below is an instruction that describes a task. Write a response that appropriately " +
    "completes the request.",
};

const conciseSystem: SystemText = {
  withInput:
    "Below is an instruction from a USER that describes a task, paired with an input that " +
    "provides further context. The ASSISTANT writes a response that concisely and appropriately " +
    "completes the request.\n\n",
  withoutInput:
    "Below is an instruction from a USER that describes a task. The ASSISTANT writes a response " +
    "that appropriately and concisely completes the request.\n\n",
};

const explainSystem = sameSystem(
  "Choose the answer that best answers the question. Explain your reasoning.\n",
);
const conciseChoiceSystem = sameSystem(
  "Choose the answer that best answers the question. Be concise in your response.\n\n",
);
const contextSystem = sameSystem(
  "Use the following contextual information to concisely answer the question.\n",
);

type Parts = (fields: RowFields) => Omit<Instruction, "system">;

const alpacaFields: Parts = (fields) => ({
  instruction: fields.text("instruction"),
  input: fields.optionalText("input"),
});
const instructionIn =
  (field: string): Parts =>
  (fields) => ({ instruction: fields.text(field), input: "" });
const clue: Parts = (fields) => ({
  instruction: fields.text("question"),
  input: fields.text("category"),
});
const choices: Parts = (fields) => ({
  instruction: fields.text("question"),
  input: fields
    .texts("choices")
    .map((choice) => `- "${choice}"`)
    .join("\n"),
});
const articleWith =
  (question: string): Parts =>
  (fields) => ({
    instruction: `${fields.text("article")}\n===\n${fields.text(question)}`,
    input: "",
  });

function alpacaText(wording: Wording, { withInput, withoutInput }: SystemText, parts: Parts) {
  return instructionText(wording, (fields) => {
    const { instruction, input } = parts(fields);
    return { instruction, input, system: input === "" ? withoutInput : withInput };
  });
}

function one(
  names: PromptType["names"],
  wording: Wording,
  system: SystemText,
  parts: Parts,
): PromptType {
  return textType(names, alpacaText(wording, system, parts));
}

/** A type with its styles: `alpaca`, `alpaca:chat`, `alpaca:chatml`, `alpaca:phi`. */
function styled(
  name: string,
  system: SystemText,
  parts: Parts,
  aliases: { instruct?: string[]; chat?: string[] } = {},
): PromptType[] {
  const { instruct = [], chat = [] } = aliases;
  return [
    one([name, `${name}:instruct`, ...instruct], styles.instruct, system, parts),
    one([`${name}:chat`, ...chat], styles.chat, system, parts),
    one([`${name}:chatml`], styles.chatml, system, parts),
    one([`${name}:phi`], styles.phi, system, parts),
  ];
}

const tldr: Wording = {
  system: "{system}",
  turn: "",
  turnWithoutInput: "USER: Summarize the following article as a TL;DR.\n{instruction}\nASSISTANT:",
};
const rawInstruction: Wording = { system: "{system}", turn: "", turnWithoutInput: "{instruction}" };
const noSystem = sameSystem("");

/** Instructions in Alpaca's wording, and Axolotl's types based on it. */
export const alpacaTypes: readonly PromptType[] = [
  ...styled("alpaca", alpacaSystem, alpacaFields, {
    instruct: ["alpaca_instruct", "alpaca_instruct.load"],
    chat: ["alpaca_chat", "alpaca_chat.load"],
  }),
  one(["alpaca_instruct.load_no_prompt"], styles.instruct, noSystem, alpacaFields),
  one(["alpaca_chat.load_concise"], styles.chat, conciseSystem, alpacaFields),
  one(["alpaca_chat.load_qa"], styles.chat, conciseSystem, instructionIn("question")),
  one(["alpaca_chat.load_camel_ai"], styles.chat, conciseSystem, instructionIn("message_1")),
  one(["alpaca_chat.load_no_prompt"], styles.chat, noSystem, alpacaFields),
  ...styled("gpteacher", alpacaSystem, alpacaFields),
  ...styled("oasst", alpacaSystem, instructionIn("INSTRUCTION")),
  ...styled("jeopardy", alpacaSystem, clue),
  ...styled("explainchoice", explainSystem, choices),
  one(
    ["concisechoice", "concisechoice:instruct", "concisechoice:chat"],
    withSystem(styles.chat, "{system}"),
    conciseChoiceSystem,
    choices,
  ),
  one(
    ["summarizetldr", "summarizetldr:instruct", "summarizetldr:chat"],
    tldr,
    noSystem,
    instructionIn("article"),
  ),
  one(["context_qa", "context_qa.load"], styles.chat, contextSystem, articleWith("question")),
  one(["context_qa.load_404"], styles.chat, contextSystem, articleWith("unanswerable_question")),
  one(["context_qa.load_v2"], rawInstruction, noSystem, (fields) => ({
    instruction: `Context: ${fields.text("context")}\nQuestion: ${fields.text("question")}\n`,
    input: "",
  })),
  one(["metharme", "metharme.load"], rawInstruction, noSystem, instructionIn("prompt")),
];

const ownSystem = (fields: RowFields): Instruction => ({
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

/** Instructions with a system text from a field of the row. */
export const alpacaWithSystemTypes: readonly PromptType[] = [
  textType(
    ["alpaca_w_system", "alpaca_w_system.load", "alpaca_w_system.load_chat"],
    instructionText(styles.chat, ownSystem),
  ),
  textType(["alpaca_w_system.load_instruct"], instructionText(styles.instruct, ownSystem)),
  textType(["alpaca_w_system.load_open_orca"], instructionText(openOrcaWording, openOrca)),
  textType(["alpaca_w_system.load_open_orca_chatml"], instructionText(styles.chatml, openOrca)),
  // Unlike in other types, an empty system text keeps its heading.
  textType(
    ["orcamini", "orcamini.load"],
    (fields) => `### System:\n${fields.text("system_prompt")}\n\n${userTurn(fields)}`,
  ),
];

const taskWithInput =
  "Below is an instruction that describes a task, paired with an input that provides further " +
  "context.";
const taskWithoutInput = "Below is an instruction that describes a task.";
const reflect =
  " You, the Assistant, should generate a response as if it were an abstract for an academic or " +
  "technical paper on the query along with a methodology. Then generate an Agent Reflection " +
  "where you create a long form response as if from subject matter expert, be verbose, " +
  "diligent, and creative in your application of knowledge, apply it through the lens of the " +
  "response generated by the assistant. Look for flawed reasoning, faulty logic, or other " +
  "mistakes in the method. Finally, generate a final response and method for the user with the " +
  "Assistant abstract and Reflection analysis as augmentations to the generation\n\n";

function reflectionText(wording: Wording, hasSystem: boolean): (fields: RowFields) => string {
  return instructionText(withSystem(wording, "{system}"), (fields) => {
    const input = fields.optionalText("input");
    const task = input === "" ? taskWithoutInput : taskWithInput;
    const system = hasSystem ? task + reflect : "";
    return { system, instruction: fields.text("instruction"), input };
  });
}

/** Instructions with an answer, a critique and a second answer. */
export const reflectionTypes: readonly PromptType[] = [
  // As in Axolotl, the system text is present only if a style is named.
  textType(["reflection"], reflectionText(styles.instruct, false)),
  textType(["reflection:instruct"], reflectionText(styles.instruct, true)),
  textType(["reflection:chat"], reflectionText(styles.chat, true)),
];
