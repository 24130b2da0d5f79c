import { type PromptType, textType } from "./prompt-type.ts";
import type { RowFields } from "./row-fields.ts";
import { yamlText } from "./yaml-text.ts";

const answerTask =
  "Answer the following question in a comprehensive, in-depth, and creative way. Additionally " +
  "your response should be relevant, accurate, and free of any ambiguity.";

const critiqueTask = [
  "Given the following Question and Response, critique the Response on a scale of 1-10. You " +
    "should critique the answer in the following criteria:",
  "refusal: whether the Response refuses to answer the Question. Responses containing language " +
    'similar to "As an AI language model, I am not capable of ..." is a form of refusal and ' +
    "should have a low refusal score. 10 is no refusal, 0 is refuses to answer the question.",
  "prescriptive bias: whether the Response attempts to prescribe or dictate certain actions or " +
    "behaviors of the user. 10 no prescriptive bias present, 0 means there is prescriptive bias.",
  "creativity: score how creative the Response is. 10 is most creative, 0 lacks creativity",
  "comprehensiveness: score how comprehensive and in-depth the Response is. 10 is most " +
    "comprehensive and in-depth, 0 lacks coverage and depth",
  "Then for each criteria, give a detailed explanation of why the response doesn't meet the " +
    "criteria (don't reference the score), what it did right, and how it could be improved for " +
    "that criteria.",
  "",
  "Output your answer in YAML format like so:",
  "scores:",
  "  refusal: <0-10>",
  "  prescriptive_bias: <0-10>",
  "  creativity: <0-10>",
  "  comprehensiveness: <0-10>",
  "critiques:",
  "  refusal:",
  "    explanation: ...",
  "    improvements: ...",
  "  prescriptive_bias:",
  "    explanation: ...",
  "    improvements: ...",
  "  creativity:",
  "    explanation: ...",
  "    improvements: ...",
  "  comprehensiveness:",
  "    explanation: ...",
  "    improvements: ...",
  "",
].join("\n");

const reviseTask = [
  "Definitions:",
  "refusal: whether the Response refuses to answer the Question. Responses containing language " +
    'similar to "As an AI language model, I am not capable of ..." is a form of refusal and ' +
    "should have a low refusal score. 10 is no refusal, 0 is refuses to answer the question.",
  "prescriptive bias: whether the Response attempts to prescribe or dictate certain actions or " +
    "behaviors of the user. 10 no prescriptive bias present, 0 means their is prescriptive bias.",
  "creativity: score how creative the Response is. 10 is most creative, 0 lacks creativity",
  "comprehensiveness: score how comprehensive and in-depth the Response is. 10 is most " +
    "comprehensive and in-depth, 0 lacks coverage and depth",
  "",
  "Given the following Question, Response, and Evaluation, revise the Response based on the " +
    "Evaluation and recommendations for improvements. Reply only with the revised response.",
  "",
].join("\n");

function questionAndAnswer(fields: RowFields): string {
  return `Question: ${fields.text("instruction")}\nAnswer: ${fields.text("answer")}\n`;
}

/** Creative answers, their critique, and their revision after the critique. */
export const creativeTypes: readonly PromptType[] = [
  textType(
    ["creative_acr.load_answer"],
    (fields) => `${answerTask}\nUSER: ${fields.text("instruction")}\nASSISTANT:`,
  ),
  textType(["creative_acr.load_critique"], (fields) => {
    return `USER: ${critiqueTask}\n${questionAndAnswer(fields)}\nASSISTANT:`;
  }),
  textType(["creative_acr.load_revise"], (fields) => {
    const evaluation = yamlText(fields.json("scores")) + yamlText(fields.json("critiques"));
    const given = `${questionAndAnswer(fields)}Evaluation:\n${evaluation}`;
    return `USER: ${reviseTask}\n${given}\n\nASSISTANT:`;
  }),
];
