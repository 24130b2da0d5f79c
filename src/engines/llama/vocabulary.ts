/** The facts of a tokenizer, read once for each of its tokens. */
export interface TokenSource {
  /** Number of tokens. */
  size: number;
  /** How words are cut: `bpe` and `spm` are supported, others cannot be spelled by bytes. */
  kind: string;
  /** A token as in the file. */
  text(token: number): string | undefined;
  /** Bit field of llama.cpp: 4 normal, 8 control, 16 user-defined, 32 byte. */
  attributes(token: number): number;
  isEnd(token: number): boolean;
}

const normalAttribute = 4;
const controlAttribute = 8;
const userDefinedAttribute = 16;
const byteAttribute = 32;

/**
 * The tokens of a model as bytes. Tokens may cut a character in two, so text is assembled from
 * bytes and never from the tokens' own texts.
 */
export class Vocabulary {
  readonly size: number;
  readonly #source: TokenSource;
  readonly #bytes: (Uint8Array | undefined)[];
  #sorted: Int32Array | undefined;
  #byteTokens: Map<number, number> | undefined;
  #ends: Uint32Array | undefined;
  #lineEnds: number[] | undefined;

  constructor(source: TokenSource) {
    this.#source = source;
    this.size = source.size;
    this.#bytes = new Array(source.size);
  }

  isEnd(token: number): boolean {
    return this.#source.isEnd(token);
  }

  /** The bytes of a token; none for control tokens. */
  bytes(token: number): Uint8Array {
    let bytes = this.#bytes[token];
    if (bytes === undefined) {
      bytes = this.#decode(token);
      this.#bytes[token] = bytes;
    }
    return bytes;
  }

  /** A single token for people: part of a character becomes U+FFFD. */
  text(token: number): string {
    const bytes = this.bytes(token);
    return bytes.length > 0 ? Buffer.from(bytes).toString() : (this.#source.text(token) ?? "");
  }

  /** The texts of the control tokens, as in prompts. */
  specialTexts(): string[] {
    const texts: string[] = [];
    for (let token = 0; token < this.size; token++) {
      const isControl = (this.#source.attributes(token) & controlAttribute) !== 0;
      const text = isControl ? this.#source.text(token) : undefined;
      if (text) texts.push(text);
    }
    return texts;
  }

  /** The token of one byte, if there is one. */
  byteToken(byte: number): number | undefined {
    if (this.#byteTokens === undefined) {
      this.#byteTokens = new Map();
      for (const token of this.sorted()) {
        const bytes = this.bytes(token);
        if (bytes.length === 1) this.#byteTokens.set(bytes[0]!, token);
      }
    }
    return this.#byteTokens.get(byte);
  }

  /** The tokens that end an answer. */
  ends(): Uint32Array {
    this.#ends ??= Uint32Array.from(
      Array.from({ length: this.size }, (_, token) => token).filter((token) => this.isEnd(token)),
    );
    return this.#ends;
  }

  /** Tokens that end a line: the model's own ends, and runs of line breaks. */
  lineEnds(): readonly number[] {
    if (this.#lineEnds === undefined) {
      this.#lineEnds = [];
      for (let token = 0; token < this.size; token++) {
        if (this.isEnd(token) || this.#isLineBreak(token)) this.#lineEnds.push(token);
      }
    }
    return this.#lineEnds;
  }

  /** The tokens with text, in the order of their bytes. */
  sorted(): Int32Array {
    if (this.#sorted === undefined) {
      const tokens: number[] = [];
      for (let token = 0; token < this.size; token++) if (this.#isPlain(token)) tokens.push(token);
      tokens.sort((a, b) => Buffer.compare(this.bytes(a), this.bytes(b)) || a - b);
      this.#sorted = Int32Array.from(tokens);
    }
    return this.#sorted;
  }

  #isPlain(token: number): boolean {
    const plain = normalAttribute | byteAttribute;
    return (
      (this.#source.attributes(token) & plain) !== 0 &&
      !this.isEnd(token) &&
      this.bytes(token).length > 0
    );
  }

  #isLineBreak(token: number): boolean {
    const bytes = this.bytes(token);
    return bytes.length > 0 && bytes.every((byte) => byte === 10);
  }

  #decode(token: number): Uint8Array {
    const text = this.#source.text(token) ?? "";
    const attributes = this.#source.attributes(token);
    if ((attributes & controlAttribute) !== 0) return new Uint8Array();
    if ((attributes & userDefinedAttribute) !== 0) return Buffer.from(text);
    if (this.#source.kind === "bpe") return bytesOfBpe(text);
    const byte = /^<0x([0-9A-F]{2})>$/.exec(text);
    if (byte) return Uint8Array.of(Number.parseInt(byte[1]!, 16));
    return Buffer.from(text.replaceAll("▁", " "));
  }
}

/**
 * Byte-level BPE writes each byte as one printable character: printable characters of Latin-1 stand
 * for themselves, the others are moved to U+0100 and up, in order.
 *
 * Source: Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2).
 */
function bytesOfBpe(text: string): Uint8Array {
  const bytes: number[] = [];
  for (const character of text) {
    const byte = byteOfCharacter.get(character);
    if (byte === undefined) return Buffer.from(text);
    bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

const byteOfCharacter = new Map<string, number>();
{
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte !== 0xad);
  let moved = 0;
  for (let byte = 0; byte < 256; byte++) {
    const code = isPrintable(byte) ? byte : 0x100 + moved++;
    byteOfCharacter.set(String.fromCharCode(code), byte);
  }
}
