import { BrokenText } from "../broken-text.ts";
import { type ArrowField, decodeBatch } from "./library.ts";
import type { Message } from "./messages.ts";
import { assertWhole } from "./whole-batch.ts";

interface Dictionary {
  field: ArrowField;
  text(value: unknown): string;
  /** JSON of each entry. */
  texts: (string | BrokenText)[];
}

/** What the keys of a file's dictionaries stand for, as far as it was read. */
export class Dictionaries {
  readonly #all = new Map<number, Dictionary>();

  /** @param field of the entries, with raw types. */
  declare(id: number, field: ArrowField, text: (value: unknown) => string): void {
    if (!this.#all.has(id)) this.#all.set(id, { field, text, texts: [] });
  }

  /**
   * Takes the entries of one message.
   *
   * @throws Error where they are not as the message says.
   */
  take({ metadata, place, version, dictionary }: Message, body: Uint8Array): void {
    const known = this.#all.get(dictionary!.id);
    if (!known) throw new Error(`dictionary ${dictionary!.id} is of no column`);
    const [batch] = decodeBatch([known.field], { metadata, place, version }, body);
    assertWhole(batch!, dictionary!.entries);
    if (!dictionary!.isDelta) known.texts = [];
    for (const value of Array.from(batch!.slice(0, batch!.length))) {
      known.texts.push(textOrBroken(() => known.text(value)));
    }
  }

  /**
   * The JSON of what a key stands for.
   *
   * @throws Error where it stands for nothing.
   */
  textOf(id: number, key: number): string {
    const text = this.#all.get(id)?.texts[key];
    if (text === undefined) throw new Error(`dictionary ${id} has no entry ${key}`);
    if (typeof text !== "string") throw text;
    return text;
  }
}

function textOrBroken(write: () => string): string | BrokenText {
  try {
    return write();
  } catch (thrown) {
    if (thrown instanceof BrokenText) return thrown;
    throw thrown;
  }
}
