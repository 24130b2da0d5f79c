import type { WrittenRow } from "../../foundation/exact-json.ts";
import type { InferenceRequest, TextMessage } from "../../foundation/inference.ts";
import { jobInvalid } from "../answer-form.ts";
import { wrongType } from "../field-errors.ts";
import type { ConversationReading, Reading, TextReading } from "./prompt-type.ts";
import { readNamedType } from "./registry.ts";
import { RowFields } from "./row-fields.ts";
import { type AskedMessages, filledIn, planTurns, type TurnsPolicy } from "./turns.ts";
import type { TypeOptions, UserDefinedType } from "./type-options.ts";
import { instructionText } from "./wording.ts";

export interface TypedPromptOptions {
  type: string | UserDefinedType;
  typeOptions?: TypeOptions | undefined;
  turns?: TurnsPolicy | undefined;
  api?: "chat" | "completion" | undefined;
  eosToken?: string | undefined;
}

/** What one request gives the engine: a text to continue, or messages. */
export type AskContent = Required<Pick<InferenceRequest, "prompt">> | { messages: TextMessage[] };

/** A prompt whose words come from its type. */
export interface TypedPrompt {
  /** `completion`: requests are texts, sent unchanged. */
  readonly api: "chat" | "completion";
  /**
   * The requests of a row, in order: one, or with `turns: every` one for each turn.
   *
   * @throws SluiceError `VARIABLE_MISSING`, `FIELD_TYPE` or `ELEMENTS_TOO_MANY`.
   */
  asks(row: WrittenRow): AskedMessages[];
  /** The content of a request, with the model's answers to the row's earlier requests. */
  content(ask: AskedMessages, answers: readonly string[]): AskContent;
}

/**
 * Compiles a prompt with a type, once for all rows. A type that makes a text is a completion, or
 * with `api: chat` a single user message. A conversation uses the model's chat template; if the
 * type has its own form, it is a completion.
 *
 * @param key of the prompt in the job file, for messages: `prompts.answer`.
 * @throws SluiceError `JOB_INVALID`.
 * @example
 * const typed = compileTypedPrompt({ type: "completion" }, "prompt");
 * typed.asks({ text: "Once" }).map((ask) => typed.content(ask, [])); // [{ prompt: "Once" }]
 */
export function compileTypedPrompt(options: TypedPromptOptions, key: string): TypedPrompt {
  const reading = readingOf(options, key);
  const place = `${key}.type`;
  if (reading.kind === "conversation") return conversation(reading, options, key);
  if (options.turns !== undefined) {
    throw jobInvalid(`${key}.turns`, "the type makes one text of a row, not a conversation");
  }
  const { api = "completion" } = options;
  return {
    api,
    asks: (row) => [[{ role: "user", content: reading.text(new RowFields(row, place)) }]],
    content: (ask, answers) => {
      const messages = filledIn(ask, answers);
      return api === "chat" ? { messages } : { prompt: messages[0]!.content };
    },
  };
}

function readingOf({ type, typeOptions = {} }: TypedPromptOptions, key: string): Reading {
  if (typeof type === "string") return readNamedType(type, typeOptions, key);
  const [option] = Object.keys(typeOptions);
  if (option === undefined) return readUserDefined(type, `${key}.type`);
  throw jobInvalid(`${key}.typeOptions.${option}`, "a type of one's own has its keys in type");
}

function conversation(
  reading: ConversationReading,
  options: TypedPromptOptions,
  key: string,
): TypedPrompt {
  const { format } = reading;
  const { turns = "last", eosToken = "", api = format ? "completion" : "chat" } = options;
  if (api === "completion" && format === undefined) {
    throw jobInvalid(`${key}.api`, "the type makes messages, which need the model's chat template");
  }
  return {
    api,
    asks: (row) => {
      const asks = planTurns(reading.messages(new RowFields(row, `${key}.type`)), turns);
      if (asks.length > 0) return asks;
      throw wrongType({ name: `${key}.type` }, "the row's conversation has no message to answer");
    },
    content: (ask, answers) => {
      const messages = filledIn(ask, answers);
      return api === "chat" ? { messages } : { prompt: format!(messages, eosToken) };
    },
  };
}

/**
 * A type that the job itself describes, with Axolotl's keys.
 *
 * @param key in the job file, for messages: `prompts.answer.type`.
 * @throws SluiceError `JOB_INVALID` for a format with an unknown name.
 */
function readUserDefined(type: UserDefinedType, key: string): TextReading {
  const wording = {
    system: type.system_format,
    turn: type.format,
    turnWithoutInput: type.no_input_format,
  };
  const text = instructionText(
    wording,
    (fields) => ({
      system: fields.has(type.field_system) ? fields.text(type.field_system) : type.system_prompt,
      instruction: fields.text(type.field_instruction),
      input: fields.optionalText(type.field_input),
    }),
    key,
  );
  return { kind: "text", text };
}
