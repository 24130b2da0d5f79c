import { Template } from "@huggingface/jinja";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { type ChatMessage, contentText, type ToolCall } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject, jsonIn } from "../../foundation/json.ts";

/**
 * A piece of a rendered conversation. Special tokens are read only in `template` pieces:
 * `<|im_end|>` in a row is plain text.
 */
export type PromptPiece = { kind: "template" | "content"; text: string };

/** The variables of a template besides the messages. */
export interface TemplateTokens {
  bos: string;
  eos: string;
  /** Texts of the special tokens, which tools and calls must not hold. Default: none. */
  special?(): readonly string[];
}

// White space around each placeholder shows whether the template trims contents, and whether it
// writes them as JSON.
const pad = " \n ";
const jsonPad = JSON.stringify(pad).slice(1, -1);
const mark = (place: number) => `\u{F0000}${place}\u{F0001}`;
const markPattern = /\u{F0000}(\d+)\u{F0001}/gu;

const probeTool: JsonObject = {
  type: "function",
  function: { name: "f", description: "f", parameters: { type: "object", properties: {} } },
};

/** A model's chat template, from its GGUF file. */
export class ChatTemplate {
  /** Whether it shows tools to the model. */
  readonly takesTools: boolean;
  readonly source: string;
  readonly #template: Template;
  readonly #tokens: TemplateTokens;
  #special: RegExp | undefined;
  #areArgumentsText: boolean | undefined;

  /** @throws SluiceError `MODEL_TEMPLATE_UNUSABLE` if it is not supported Jinja. */
  constructor(source: string, tokens: TemplateTokens) {
    this.source = source;
    this.takesTools = /\btools\b/.test(source);
    this.#tokens = tokens;
    try {
      this.#template = new Template(source);
    } catch (cause) {
      throw unusable(`it does not parse: ${(cause as Error).message}`, cause);
    }
  }

  /**
   * The conversation in the model's trained form, up to the beginning of its answer. It is rendered
   * with placeholders for the contents, which are then inserted as text.
   *
   * @throws SluiceError `MODEL_TEMPLATE_UNUSABLE` if the template refuses the conversation, or
   *   changes contents by more than trimming.
   */
  render(messages: readonly ChatMessage[], tools?: readonly JsonObject[]): PromptPiece[] {
    /** What stands at the placeholders: the contents, then special tokens in tools and calls. */
    const texts = messages.map(({ content }) => contentText(content));
    const rendered = this.#renderMarked(messages, tools, texts);
    const pieces: PromptPiece[] = [];
    const seen = new Set<number>();
    let end = 0;
    for (const match of rendered.matchAll(markPattern)) {
      const place = Number(match[1]);
      const markEnd = match.index + match[0].length;
      const isPadded = (by: string) =>
        rendered.endsWith(by, match.index) || rendered.startsWith(by, markEnd);
      const used = isPadded(jsonPad) ? jsonPad : pad;
      const keepsStart = rendered.endsWith(used, match.index);
      const keepsEnd = rendered.startsWith(used, markEnd);
      const start = match.index - (keepsStart ? used.length : 0);
      push(pieces, { kind: "template", text: rendered.slice(end, start) });
      let text = texts[place]!;
      if (!keepsStart) text = text.trimStart();
      if (!keepsEnd) text = text.trimEnd();
      if (used === jsonPad) text = JSON.stringify(text).slice(1, -1);
      push(pieces, { kind: "content", text });
      seen.add(place);
      end = markEnd + (keepsEnd ? used.length : 0);
    }
    push(pieces, { kind: "template", text: rendered.slice(end) });
    // Some templates drop what a message says beside its calls, as their models never saw it.
    const lost = messages.findIndex(
      (each, place) => !seen.has(place) && callsOf(each) === undefined,
    );
    if (lost >= 0) throw unusable(`it drops or rewrites message ${lost + 1}`);
    return pieces;
  }

  #renderMarked(
    messages: readonly ChatMessage[],
    tools: readonly JsonObject[] | undefined,
    texts: string[],
  ): string {
    const names = new Map<string, string>();
    const shown = messages.map((message, place): JsonObject => {
      const calls = callsOf(message);
      const { role } = message;
      const content = calls && texts[place] === "" ? "" : `${pad}${mark(place)}${pad}`;
      if (calls) {
        for (const { id, function: called } of calls) names.set(id, called.name);
        return { role, content, tool_calls: calls.map((call) => this.#shownCall(call, texts)) };
      }
      if (role !== "tool") return { role, content };
      const name = this.#guarded(names.get(message.toolCallId) ?? "", texts);
      return { role, name, content, tool_call_id: shownId(message.toolCallId) };
    });
    return this.#run({
      messages: shown,
      ...(tools && { tools: tools.map((tool) => this.#guarded(tool, texts)) }),
    });
  }

  #shownCall({ id, function: { name, arguments: text } }: ToolCall, texts: string[]): JsonObject {
    const value = jsonIn(text);
    const isText = this.#takesArgumentsAsText() || !isJsonObject(value);
    const shown = this.#guarded({ name, arguments: isText ? text : value }, texts);
    return { id: shownId(id), type: "function", function: shown };
  }

  /**
   * Most templates write arguments by `tojson`, from an object. Some join them to a text, and so
   * need a text.
   */
  #takesArgumentsAsText(): boolean {
    this.#areArgumentsText ??= !this.#shows({ probe: "x" }) && this.#shows('{"probe": "x"}');
    return this.#areArgumentsText;
  }

  /** Whether the template shows these arguments of a call as JSON. */
  #shows(given: Json): boolean {
    const called = { id: "probe0000", type: "function", function: { name: "f", arguments: given } };
    const messages: JsonObject[] = [
      { role: "user", content: "x" },
      { role: "assistant", content: "", tool_calls: [called] },
    ];
    try {
      return /"probe": ?"x"/.test(this.#run({ messages, tools: [probeTool] }));
    } catch {
      return false;
    }
  }

  #run(variables: JsonObject): string {
    try {
      return this.#template.render({
        ...variables,
        add_generation_prompt: true,
        bos_token: this.#tokens.bos,
        eos_token: this.#tokens.eos,
      });
    } catch (cause) {
      throw unusable((cause as Error).message, cause);
    }
  }

  /** A value with placeholders for the special tokens in its texts, which are added to `texts`. */
  #guarded<Value extends Json>(value: Value, texts: string[]): Value {
    this.#special ??= patternOf(this.#tokens.special?.() ?? []);
    const pattern = this.#special;
    const guarded = (inner: Json): Json => {
      if (typeof inner === "string") {
        return inner.replace(pattern, (token) => mark(texts.push(token) - 1));
      }
      if (Array.isArray(inner)) return inner.map(guarded);
      if (!isJsonObject(inner)) return inner;
      return Object.fromEntries(
        Object.entries(inner).map(([name, each]) => [guarded(name) as string, guarded(each)]),
      );
    };
    return guarded(value) as Value;
  }
}

function callsOf(message: ChatMessage): readonly ToolCall[] | undefined {
  return message.role === "assistant" ? message.toolCalls : undefined;
}

/** Mistral's templates take no other ids than of 9 letters and digits. */
function shownId(id: string): string {
  return /^[0-9A-Za-z]{9}$/.test(id) ? id : sha256Hex(id).slice(0, 9);
}

/** Any of the texts, or a character of placeholders. */
function patternOf(texts: readonly string[]): RegExp {
  const longestFirst = texts.toSorted((a, b) => b.length - a.length);
  const escaped = longestFirst.map((text) => text.replace(/[$()*+./?[\\\]^{|}]/g, "\\$&"));
  return new RegExp([...escaped, "[\\u{F0000}\\u{F0001}]"].join("|"), "gu");
}

function push(pieces: PromptPiece[], piece: PromptPiece): void {
  if (piece.text !== "") pieces.push(piece);
}

function unusable(detail: string, cause?: unknown): SluiceError {
  return new SluiceError("MODEL_TEMPLATE_UNUSABLE", detail, { cause });
}

/** The text between a prompt and a line: a word after a word or a colon needs a space. */
export function spaceAfter(pieces: readonly PromptPiece[]): string {
  return /[\p{L}\p{N}.:;,?!]$/u.test(pieces.at(-1)?.text ?? "") ? " " : "";
}
