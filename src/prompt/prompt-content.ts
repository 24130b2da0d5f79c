import type { WrittenRow } from "../foundation/exact-json.ts";
import type { InferenceRequest, TextMessage } from "../foundation/inference.ts";
import { jobInvalid } from "./answer-form.ts";
import { compileExpression } from "./expression.ts";
import { historyMessages } from "./history.ts";
import type { PromptOptions } from "./prompt-options.ts";
import { compileTemplate, type Template } from "./template.ts";
import { cleanedPrompt } from "./types/prompt-text.ts";
import type { AskedMessages } from "./types/turns.ts";
import { compileTypedPrompt } from "./types/typed-prompt.ts";

/** The words of a prompt: they become the `prompt` or the `messages` of a request. */
export interface PromptContent {
  readonly api: NonNullable<PromptOptions["api"]>;
  /** Names that it reads from the row, `item` and `loop`. */
  readonly variables: readonly string[];
  /** Sets the `prompt` or `messages` of a row's request. */
  fill(request: InferenceRequest, row: WrittenRow, extra: WrittenRow | undefined): void;
  /** Present if a row has several requests, each of which continues after the model's answers. */
  readonly turns?: Turns;
}

/** A conversation that is sent turn by turn. */
export interface Turns {
  /** The requests of a row, in order; each begins with the messages of the one before. */
  asks(row: WrittenRow): readonly AskedMessages[];
  /** Sets the messages of a request, with `answers` of the model to the requests before it. */
  fill(request: InferenceRequest, ask: AskedMessages, answers: readonly string[]): void;
}

interface MessageTemplate {
  role: TextMessage["role"];
  content: Template;
}

/**
 * Compiles the templates of a prompt, or its type.
 *
 * @param key in the job file, for messages: `prompts.measures`.
 * @throws SluiceError `JOB_INVALID` or `TEMPLATE_INVALID`, which names the key.
 */
export function compileContent(options: PromptOptions, key: string): PromptContent {
  if (options.api === "embedding" || options.api === "transcription") {
    return withoutAnswer(options, options.api, key);
  }
  const content = options.type === undefined ? ofTemplates(options, key) : ofType(options, key);
  if (content.api === "completion") return cleaned(content, options);
  const why = "it is for completions; the model's chat template ends a chat";
  refuse(options, key, ["stripWhitespace", "eosToken"], why);
  return content;
}

/** A prompt that no answer continues: a vector or a text is made of all its messages. */
function withoutAnswer(
  options: PromptOptions,
  api: "embedding" | "transcription",
  key: string,
): PromptContent {
  const ofWords = ["messages", "system", "type", "typeOptions", "turns"] as const;
  const ofAnswers = ["answer", "schema", "stripWhitespace", "eosToken"] as const;
  refuse(options, key, [...ofWords, ...ofAnswers], `it has no effect with api: ${api}`);
  const { prompt, file } = options;
  const template = compileTemplate((prompt ?? file)!, { name: file ? `${key}.file` : key });
  return {
    api,
    variables: template.variables,
    fill: (request, row, extra) => {
      const text = template.render(row, extra);
      if (api === "embedding") Object.assign(request, { prompt: text, embed: true });
      else request.file = text;
    },
  };
}

function refuse(
  options: PromptOptions,
  key: string,
  fields: readonly (keyof PromptOptions)[],
  why: string,
): void {
  const given = fields.find((field) => options[field] !== undefined);
  if (given !== undefined) throw jobInvalid(`${key}.${given}`, why);
}

function cleaned(content: PromptContent, options: PromptOptions): PromptContent {
  if (!options.stripWhitespace && !options.eosToken) return content;
  const clean = (request: InferenceRequest) => {
    request.prompt = cleanedPrompt(request.prompt!, options);
  };
  const { turns } = content;
  return {
    ...content,
    fill: (request, row, extra) => {
      content.fill(request, row, extra);
      clean(request);
    },
    ...(turns && {
      turns: {
        asks: turns.asks,
        fill: (request: InferenceRequest, ask: AskedMessages, answers: readonly string[]) => {
          turns.fill(request, ask, answers);
          clean(request);
        },
      },
    }),
  };
}

function ofType(options: PromptOptions, key: string): PromptContent {
  refuse(options, key, ["system", "forEach"], "the words come from the type; leave it out");
  const { api, type = "" } = options;
  const wordsApi = api === "chat" || api === "completion" ? api : undefined;
  const typed = compileTypedPrompt({ ...options, type, api: wordsApi }, key);
  const turns: Turns = {
    asks: (row) => typed.asks(row),
    fill: (request, ask, answers) => {
      Object.assign(request, typed.content(ask, answers));
    },
  };
  return {
    api: typed.api,
    variables: [],
    fill: (request, row) => turns.fill(request, typed.asks(row)[0]!, []),
    ...(options.turns === "every" && { turns }),
  };
}

function ofTemplates(options: PromptOptions, key: string): PromptContent {
  refuse(options, key, ["typeOptions", "turns"], "it goes with type, which is not given");
  if (options.api === "completion") {
    const why = "a completion has no messages; put the text into prompt";
    refuse(options, key, ["messages", "system"], why);
    const prompt = compileTemplate(options.prompt!, { name: key });
    return {
      api: "completion",
      variables: prompt.variables,
      fill: (request, row, extra) => {
        request.prompt = prompt.render(row, extra);
      },
    };
  }
  const templates = messageTemplates(options, key);
  const { image, history } = options;
  const name = `${key}.history`;
  const before = history === undefined ? undefined : compileExpression(history, { name });
  const file = image === undefined ? undefined : compileTemplate(image, { name: `${key}.image` });
  return {
    api: "chat",
    variables: [
      ...templates.flatMap(({ content }) => content.variables),
      ...(file?.variables ?? []),
      ...(before?.variables ?? []),
    ],
    fill: (request, row, extra) => {
      const messages: TextMessage[] = [];
      for (const { role, content } of templates) {
        messages.push({ role, content: content.render(row, extra) });
      }
      if (before) {
        const first = messages.findIndex(({ role }) => role !== "system");
        const end = first < 0 ? messages.length : first;
        messages.splice(end, 0, ...historyMessages(before, row, extra, name));
      }
      request.messages = messages;
      if (file) request.file = file.render(row, extra);
    },
  };
}

function messageTemplates(options: PromptOptions, key: string): MessageTemplate[] {
  const templates: MessageTemplate[] = [];
  const add = (role: TextMessage["role"], source: string, name: string) =>
    templates.push({ role, content: compileTemplate(source, { name }) });
  if (options.system !== undefined) add("system", options.system, `${key}.system`);
  if (options.prompt !== undefined) add("user", options.prompt, key);
  for (const [at, { role, content }] of (options.messages ?? []).entries()) {
    add(role, content, `${key}.messages[${at}]`);
  }
  return templates;
}
