import { Template } from "@huggingface/jinja";
import { SluiceError } from "../../foundation/errors.ts";
import { type ChatMessage, contentText } from "../../foundation/inference.ts";

/**
 * A piece of a rendered conversation. Special tokens are read only in `template` pieces:
 * `<|im_end|>` in a row is plain text.
 */
export type PromptPiece =
  | { kind: "template"; text: string }
  | { kind: "content"; text: string; message: number };

/** The variables of a template besides the messages. */
export interface TemplateTokens {
  bos: string;
  eos: string;
}

// White space around each placeholder shows whether the template trims contents.
const pad = " \n ";
const mark = (message: number) => `\u{F0000}${message}\u{F0001}`;
const markPattern = /\u{F0000}(\d+)\u{F0001}/gu;

/** A model's chat template, from its GGUF file. */
export class ChatTemplate {
  readonly #template: Template;
  readonly #tokens: TemplateTokens;

  /** @throws SluiceError `MODEL_TEMPLATE_UNUSABLE` if it is not supported Jinja. */
  constructor(source: string, tokens: TemplateTokens) {
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
  render(messages: readonly ChatMessage[]): PromptPiece[] {
    const rendered = this.#renderMarked(messages.map(({ role }) => role));
    const pieces: PromptPiece[] = [];
    const seen = new Set<number>();
    let end = 0;
    for (const match of rendered.matchAll(markPattern)) {
      const markEnd = match.index + match[0].length;
      const message = Number(match[1]);
      const keepsStart = rendered.endsWith(pad, match.index);
      const keepsEnd = rendered.startsWith(pad, markEnd);
      const start = match.index - (keepsStart ? pad.length : 0);
      push(pieces, { kind: "template", text: rendered.slice(end, start) });
      let text = contentText(messages[message]!.content);
      if (!keepsStart) text = text.trimStart();
      if (!keepsEnd) text = text.trimEnd();
      push(pieces, { kind: "content", text, message });
      seen.add(message);
      end = markEnd + (keepsEnd ? pad.length : 0);
    }
    push(pieces, { kind: "template", text: rendered.slice(end) });
    const lost = messages.findIndex((_, message) => !seen.has(message));
    if (lost >= 0) throw unusable(`it drops or rewrites message ${lost + 1}`);
    return pieces;
  }

  #renderMarked(roles: readonly string[]): string {
    try {
      return this.#template.render({
        messages: roles.map((role, at) => ({ role, content: `${pad}${mark(at)}${pad}` })),
        add_generation_prompt: true,
        bos_token: this.#tokens.bos,
        eos_token: this.#tokens.eos,
      });
    } catch (cause) {
      throw unusable((cause as Error).message, cause);
    }
  }
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
