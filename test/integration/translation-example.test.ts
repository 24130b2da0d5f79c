import { readFileSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { locateEnginePackage } from "../../src/engines/packages/packages.ts";
import golden from "../golden/toy-m2m100/golden.json" with { type: "json" };
import { root } from "../meta/source-tree.ts";
import { engineContext } from "./llama-files.ts";
import { anywhere, ask, bodyOf, Place } from "./torchserve-place.ts";
import { missingTransformers, toyFolder } from "./transformers-files.ts";

const missing = await missingTransformers();
const example = join(root, "examples/translation-service");
const setupText = readFileSync(join(example, "setup_config.json"), "utf8");
const serveText = readFileSync(join(example, "serve.yaml"), "utf8");
const toyLine = '"model": "../../test/golden/toy-m2m100/model"';

/** As `curl -d`, which calls everything a form. */
const curl = ["content-type: application/x-www-form-urlencoded"];

/** What a search with four beams finds; `max_new_tokens` ends none of these. */
const searched = golden.cases.filter(
  ({ parameters, source }) =>
    JSON.stringify(parameters) === '{"max_new_tokens":14,"num_beams":4}' ||
    (source === "fr" && JSON.stringify(parameters) === '{"max_new_tokens":20,"num_beams":4}'),
);

/** Rows of all pairs, one of each in turn, with their translations. */
const rows = Array.from({ length: 12 }, (_, at) => at).flatMap((at) =>
  searched.slice(0, 6).map(({ source, target, texts, answers }) => ({
    body: { src_lang: source, src_text: texts[at]!, tgt_lang: target },
    translated: answers[at]![0]!.text,
  })),
);

/** A project with transformers.js. */
async function project(place: Place): Promise<void> {
  const { entry } = await locateEnginePackage("transformers", engineContext, { install: true });
  const modules = entry.slice(0, entry.lastIndexOf("@huggingface"));
  symlinkSync(modules, join(place.folder, "node_modules"));
  place.write("config.properties", `${anywhere}number_of_gpu=0\n`);
}

async function post(place: Place, path: string, body: object): Promise<Record<string, unknown>> {
  const { inference = "" } = place.addresses;
  return JSON.parse(bodyOf(await ask(inference, `POST ${path}`, JSON.stringify(body), curl)));
}

beforeEach((context) => context.skip(missing !== undefined, missing));

describe("examples/translation-service as it stands", () => {
  const place = new Place();

  beforeAll(async () => {
    if (missing !== undefined) return;
    await project(place);
    const files = ["-c", join(example, "serve.yaml"), "--ts-config", "config.properties"];
    await place.start(...files, "--data", "data");
  });
  afterAll(() => place.close());

  it("has a line that names the toy", () => {
    expect(setupText.split("\n").filter((line) => line.includes('"model"'))).toHaveLength(1);
    expect(setupText).toContain(toyLine);
    expect(resolve(example, JSON.parse(setupText).model)).toBe(join(toyFolder, "model"));
  });

  it("translates by the name in the path, and by the body", async () => {
    const variants = [...serveText.matchAll(/^ {6}(\w+): \{ tgt_lang/gm)].map(([, name]) => name);
    expect(variants).toHaveLength(14);
    const house = { src_lang: "en", src_text: "red house" };
    const german = { translated: "houseen reden", src_lang: "en", tgt_lang: "de", batch: 1 };
    expect(await post(place, "/predictions/de", house)).toEqual(german);
    expect(await post(place, "/", { ...house, tgt_lang: "de" })).toEqual(german);
    expect(await post(place, "/", { ...house, tgt_lang: "xx" })).toMatchObject({ code: 404 });
  });

  it("searches with beams, as the reference does", async () => {
    const { texts, answers, source, target } = searched[6]!;
    const greedy = golden.cases.find(
      (each) =>
        each.source === source && JSON.stringify(each.parameters) === '{"max_new_tokens":20}',
    )!;
    expect(greedy.texts).toEqual(texts);
    expect(greedy.answers.map(([best]) => best!.text)).not.toEqual(
      answers.map(([best]) => best!.text),
    );
    const found = texts.map((src_text) =>
      post(place, `/predictions/${target}`, { src_lang: source, src_text }),
    );
    const translated = (await Promise.all(found)).map((answer) => answer.translated);
    expect(translated).toEqual(answers.map(([best]) => best!.text));
  });

  it("refuses rows alone, by name and without their text", async () => {
    const secret = "do not write this down";
    const bodies = [
      { src_lang: "en", src_text: "red house", tgt_lang: "de" },
      { src_lang: "xx", src_text: secret, tgt_lang: "de" },
      { src_lang: secret, src_text: secret, tgt_lang: "de" },
      // A variant that the toy does not know.
      { src_lang: "en", src_text: secret, tgt_lang: "ko" },
      { src_lang: "en", src_text: [secret], tgt_lang: "de" },
      { src_lang: "en", src_text: `${secret} `.repeat(20), tgt_lang: "de" },
    ];
    const answers = await Promise.all(bodies.map((body) => post(place, "/", body)));
    expect(answers[0]).toMatchObject({ translated: "houseen reden" });
    const failed = { code: 503, message: "Prediction failed" };
    expect(answers.slice(1)).toEqual(bodies.slice(1).map(() => expect.objectContaining(failed)));
    const log = readFileSync(join(place.folder, "logs/sluice-serve.log"), "utf8");
    for (const reason of [
      "src_lang is not a language of the model: xx",
      "tgt_lang is not a language of the model: ko",
      "src_text is not a text",
      "src_text has 102 tokens, and the model takes 64",
    ]) {
      expect(log).toContain(reason);
    }
    expect(log).not.toContain(secret);
  });
});

describe("examples/translation-service in other places", () => {
  const place = new Place();

  beforeAll(async () => {
    if (missing !== undefined) return;
    await project(place);
    // The one line that another model changes.
    const model = JSON.stringify(join(toyFolder, "model"));
    place.write("setup_config.json", setupText.replace(toyLine, `"model": ${model}`));
    const extra = `${join(example, "beams.ts")},setup_config.json`;
    await place.archive("fr", join(example, "translate.ts"), "--extra-files", extra);
    const module = JSON.stringify(join(example, "translate.ts"));
    const columns = "textColumn: src_text, srcLangColumn: src_lang, tgtLangColumn: tgt_lang";
    const lines = [
      "models:",
      "  together:",
      `    model: { engine: predictor, module: ${module}, maxBatchRows: 72, maxBatchDelayMs: 30000 }`,
      "  engine:",
      `    model: { engine: transformers, task: translation, name: ${model}, ${columns} }`,
      "    generation: { temperature: 0, numBeams: 4, maxNewTokens: 200 }",
      "    variants: { de: { tgt_lang: de } }",
    ];
    place.write("serve.yaml", lines.join("\n"));
    const archives = ["--model-store", "store", "--models", "fr=fr.mar"];
    await place.start("-c", "serve.yaml", "--ts-config", "config.properties", ...archives);
  });
  afterAll(() => place.close());

  it("computes a batch of mixed languages pair by pair, and answers each in its own", async () => {
    // The batch waits until it has all of them.
    const answers = await Promise.all(
      rows.map(({ body }) => post(place, "/predictions/together", body)),
    );
    expect(answers).toEqual(
      rows.map(({ body: { src_lang, tgt_lang }, translated }) => {
        return { translated, src_lang, tgt_lang, batch: 12 };
      }),
    );
  });

  it("translates into the language that an archive is named after", async () => {
    const french = rows.find(({ body }) => body.tgt_lang === "fr" && body.src_lang === "en")!;
    const { tgt_lang: _, ...body } = french.body;
    const { translated } = french;
    expect(await post(place, "/predictions/fr", body)).toMatchObject({ translated });
  });

  it("is what engine transformers does without code", async () => {
    const { inference = "" } = place.addresses;
    const german = rows.filter(({ body }) => body.tgt_lang === "de");
    const answers = german.map(({ body: { src_lang, src_text } }) => {
      const body = JSON.stringify({ src_lang, src_text });
      return ask(inference, "POST /predictions/de", body, curl).then(bodyOf);
    });
    expect(await Promise.all(answers)).toEqual(german.map(({ translated }) => translated));
  });
});
