import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import type { HandlerContext, TorchServeHandler } from "sluice";
import { type Model, searchBeams, type Tensor } from "./beams.ts";

/** The used part of transformers.js. */
interface Library {
  AutoModelForSeq2SeqLM: { from_pretrained(name: string, options: object): Promise<Model> };
  AutoTokenizer: { from_pretrained(name: string): Promise<Tokenizer> };
  Tensor: new (type: string, data: Tensor["data"], dims: readonly number[]) => Tensor;
}

interface Tokenizer {
  readonly language_codes: readonly string[];
  readonly pad_token_id: number;
  readonly eos_token_id: number;
  lang_to_token(language: string): string;
  convert_tokens_to_ids(token: string): number;
  encode(text: string, options: { add_special_tokens: boolean }): number[];
  decode(tokens: readonly number[], options: { skip_special_tokens: boolean }): string;
}

/** `setup_config.json`, beside this file. */
interface Setup {
  /** A folder, seen from that file, or a model of the Hugging Face hub. */
  model: string;
  num_beams: number;
  /** Most tokens of a translation. */
  max_length: number;
}

interface Row {
  src_text?: unknown;
  src_lang?: unknown;
  tgt_lang?: unknown;
}

interface Sentence {
  /** Its place among the requests. */
  at: number;
  tokens: readonly number[];
  source: string;
  target: string;
}

interface Batch {
  /** Each group has one pair of languages. */
  groups: Sentence[][];
  /** By the place of the request. */
  refused: Map<number, Error>;
}

interface Answer {
  sentence: Sentence;
  tokens: readonly number[];
  /** Sentences that were computed together. */
  batch: number;
}

// From the folder where the server starts: an archive is unpacked elsewhere.
const project = createRequire(join(process.cwd(), "package.json"));
const library: Library = project("@huggingface/transformers");

/** A handler with TorchServe's steps: one M2M100 for all pairs of its languages. */
export default class Translator implements TorchServeHandler {
  #setup!: Setup;
  #model!: Model;
  #tokenizer!: Tokenizer;

  async initialize({ system_properties: { model_dir, gpu_id } }: HandlerContext) {
    this.#setup = JSON.parse(await readFile(join(model_dir, "setup_config.json"), "utf8"));
    const { model } = this.#setup;
    const place = /^[./]/.test(model) ? resolve(model_dir, model) : model;
    const device = gpu_id === null ? "cpu" : { name: "cuda", deviceId: gpu_id };
    this.#model = await library.AutoModelForSeq2SeqLM.from_pretrained(place, {
      session_options: { executionProviders: [device] },
    });
    this.#tokenizer = await library.AutoTokenizer.from_pretrained(place);
  }

  preprocess(requests: unknown, { manifest: { model } }: HandlerContext): Batch {
    const sentences: Sentence[] = [];
    const refused = new Map<number, Error>();
    for (const [at, { body = {} }] of (requests as { body?: Row }[]).entries()) {
      try {
        sentences.push(this.#sentence(at, body, model.modelName));
      } catch (thrown) {
        refused.set(at, thrown as Error);
      }
    }
    const groups = Map.groupBy(sentences, ({ source, target }) => `${source} ${target}`);
    return { groups: [...groups.values()], refused };
  }

  async inference(batch: unknown) {
    const { groups, refused } = batch as Batch;
    const answers: (Answer | Error)[] = [];
    for (const [at, error] of refused) answers[at] = error;
    for (const group of groups) {
      const found = await this.#translate(group);
      for (const [place, sentence] of group.entries()) {
        answers[sentence.at] = { sentence, tokens: found[place]!, batch: group.length };
      }
    }
    return answers;
  }

  postprocess(answers: unknown) {
    return (answers as (Answer | Error)[]).map((answer) => {
      if (answer instanceof Error) return answer;
      const { sentence, tokens, batch } = answer;
      const translated = this.#tokenizer.decode(tokens, { skip_special_tokens: true });
      return { translated, src_lang: sentence.source, tgt_lang: sentence.target, batch };
    });
  }

  /** @throws Error without the text: what a handler says in its errors is logged. */
  #sentence(at: number, { src_text, src_lang, tgt_lang }: Row, modelName: string): Sentence {
    const { language_codes, eos_token_id } = this.#tokenizer;
    if (typeof src_text !== "string") throw new Error("src_text is not a text");
    const source = this.#language(src_lang, "src_lang");
    // The name of an archive is its language; a variant adds its own to the body.
    const target = language_codes.includes(modelName)
      ? modelName
      : this.#language(tgt_lang, "tgt_lang");
    const said = this.#tokenizer.encode(src_text, { add_special_tokens: false });
    const tokens = [this.#tokenOf(source), ...said, eos_token_id];
    const { max_position_embeddings: most } = this.#model.config;
    if (tokens.length <= most) return { at, tokens, source, target };
    throw new Error(`src_text has ${tokens.length} tokens, and the model takes ${most}`);
  }

  #language(given: unknown, key: string): string {
    const known = this.#tokenizer.language_codes;
    if (typeof given === "string" && known.includes(given)) return given;
    const named = /^\w{2,8}$/.test(String(given)) ? `: ${given}` : "";
    throw new Error(`${key} is not a language of the model${named}`);
  }

  #tokenOf(language: string): number {
    return this.#tokenizer.convert_tokens_to_ids(this.#tokenizer.lang_to_token(language));
  }

  #translate(group: readonly Sentence[]) {
    const { num_beams, max_length } = this.#setup;
    return searchBeams(
      this.#model,
      (type, data, dims) => new library.Tensor(type, data, dims),
      group.map(({ tokens }) => tokens),
      {
        numBeams: num_beams,
        maxLength: Math.min(max_length, this.#model.config.max_position_embeddings),
        forcedStart: this.#tokenOf(group[0]!.target),
        padToken: this.#tokenizer.pad_token_id,
      },
    );
  }
}
