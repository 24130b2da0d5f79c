import { expectTypeOf, it } from "vitest";
import { z } from "zod";
import { dataset, generate, type Json } from "../../src/index.ts";

/**
 * What compiles and what does not. `tsc` is the judge (`npm run check`); each `@ts-expect-error`
 * fails there where its line does compile.
 */
const rows = dataset.from([{ id: 1, text: "one" }]);

it("types flow from stage to stage", () => {
  const words = rows
    .flatMap(({ id, text }) => text.split(" ").map((word) => ({ id, word })))
    .withColumn("size", ({ word }) => word.length)
    .mapBatches((batch) => batch.map((row) => ({ ...row, total: batch.length })));
  expectTypeOf(words.take).returns.resolves.items.toMatchTypeOf<{
    id: number;
    word: string;
    size: number;
    total: number;
  }>();
  const renamed = rows.select("text").rename({ text: "said" });
  expectTypeOf(renamed.take).returns.resolves.items.toMatchTypeOf<{ said: string }>();
  const promised = rows.mapBatches(async (batch) => batch.map(async ({ id }) => ({ id })));
  expectTypeOf(promised.take).returns.resolves.items.toEqualTypeOf<{ id: number }>();
  const columns = rows.mapBatches(({ id }) => ({ twice: id.map((each) => 2 * each) }), {
    batchFormat: "columns",
  });
  expectTypeOf(columns.take).returns.resolves.items.toEqualTypeOf<{ twice: number }>();
  expectTypeOf(dataset.from(["a"]).take).returns.resolves.items.toMatchTypeOf<{ data: string }>();
});

it("what a module makes is unknown until somebody says it", () => {
  const made = dataset.from([{ id: 1 }]).map("./stage.ts");
  expectTypeOf(made.take).returns.resolves.items.toEqualTypeOf<Record<string, unknown>>();
  const said = dataset.from([{ id: 1 }]).mapBatches<{ size: number }>("./stage.ts");
  expectTypeOf(said.take).returns.resolves.items.toEqualTypeOf<{ size: number }>();
  expectTypeOf(said.filter("./stage.ts")).toEqualTypeOf(said);
});

it("dates, bigints and typed arrays have the types that they have", () => {
  const rows = dataset.from([{ at: new Date(0), bytes: new Uint8Array(1), id: 1n }]);
  expectTypeOf(rows.take).returns.resolves.items.toMatchTypeOf<{
    at: Date;
    bytes: Uint8Array<ArrayBuffer>;
    id: bigint;
  }>();
  expectTypeOf(dataset.from([new Date(0)]).take).returns.resolves.items.toMatchTypeOf<{
    data: Date;
  }>();
});

it("schemas of zod are types at the edges", () => {
  const read = dataset.jsonl("rows.jsonl", z.object({ id: z.number(), tags: z.array(z.string()) }));
  expectTypeOf(read.take).returns.resolves.items.toEqualTypeOf<{ id: number; tags: string[] }>();
  const label = z.object({ label: z.enum(["good", "bad"]) });
  const model = { engine: "fake" } as const;
  const asked = read.pipe(generate({ model, prompt: "{{ id }}", output: label, field: "mood" }));
  expectTypeOf(
    asked.map(({ mood }) => ({ mood: mood.label })).take,
  ).returns.resolves.items.toEqualTypeOf<{
    mood: "good" | "bad";
  }>();
  const said = read.pipe(generate({ model, prompt: "{{ id }}" }));
  expectTypeOf(said.map(({ answer }) => ({ answer })).take).returns.resolves.items.toEqualTypeOf<{
    answer: string;
  }>();
});

it("answers have the type of what was asked", () => {
  const model = { engine: "fake" } as const;
  const both = rows.pipe(generate({ model, prompts: { tone: "{{ text }}", topic: "{{ id }}" } }));
  expectTypeOf(
    both.map(({ answer }) => ({ all: answer.tone + answer.topic })).take,
  ).returns.resolves.items.toEqualTypeOf<{ all: string }>();
  const predictor = { engine: "predictor", module: "predict.ts" } as const;
  const predicted = rows.pipe(generate({ model: predictor, field: "score" }));
  expectTypeOf(
    predicted.map(({ score }) => ({ score })).take,
  ).returns.resolves.items.toEqualTypeOf<{
    score: Json;
  }>();
});

it("prompts read columns that are there", () => {
  const model = { engine: "fake" } as const;
  rows.pipe(generate({ model, prompt: "{{ text }}{{text}} {{- id -}} {{ text | upper }}" }));
  rows.pipe(
    generate({ model, prompt: "{{ text[0] }} {{ text.length }} {{ 'a.b' }} {{ range(3) }}" }),
  );
  rows.pipe(generate({ model, prompt: "{% for word in text %}{{ word }}{% endfor %}" }));
  rows.pipe(generate({ model, prompt: "{{ other | default('') }} {{ text if other else id }}" }));
  rows.pipe(generate({ model, prompt: String("{{ other }}") }));
  dataset.jsonl("rows.jsonl").pipe(generate({ model, prompt: "{{ anything }}" }));
  const either = dataset.from<{ a: number } | { b: number }>([]);
  either.pipe(generate({ model, prompt: "{{ a }} {{ b }}" }));
  const answered = rows.pipe(generate({ model, prompt: "{{ text }}" }));
  answered.pipe(generate({ model, prompt: "{{ answer }}", field: "again" }));
  const wrong = () => {
    // @ts-expect-error there is no such column
    rows.pipe(generate({ model, prompt: "Sum up {{ text }} by {{ author }}" }));
    // @ts-expect-error nor here
    rows.pipe(generate({ model, prompt: "{{ author.name | upper }}" }));
    // @ts-expect-error nor here
    rows.pipe(generate({ model, prompts: { one: "{{ text }}", two: "{{ author }}" } }));
    // @ts-expect-error it was not kept
    rows.select("id").pipe(generate({ model, prompt: "{{ text }}" }));
  };
  expectTypeOf(wrong).returns.toBeVoid();
});

it("a filter that is a type guard narrows rows", () => {
  const mixed = dataset.from<{ id: number; text: string | null }>([]);
  const texts = mixed.filter((row): row is { id: number; text: string } => row.text !== null);
  expectTypeOf(texts.take).returns.resolves.items.toEqualTypeOf<{ id: number; text: string }>();
});

it("wrong columns and stages do not compile", () => {
  class Scaled {
    readonly by: number;
    constructor(by: number) {
      this.by = by;
    }
    call(batch: { id: number }[]) {
      return batch.map(({ id }) => ({ id: id * this.by }));
    }
  }
  class OfTexts {
    call(batch: { text: number }[]) {
      return batch;
    }
  }
  const wrong = () => {
    // @ts-expect-error there is no such column
    rows.map(({ txet }) => ({ txet }));
    // @ts-expect-error nor here
    rows.select("id", "txet");
    // @ts-expect-error nor here
    rows.rename({ txet: "text" });
    // @ts-expect-error it was not kept
    rows.select("id").map(({ text }) => ({ text }));
    // @ts-expect-error it has another name now
    rows.rename({ text: "said" }).filter(({ text }) => text);
    // @ts-expect-error the row has a text already
    rows.rename({ id: "text" });
    // @ts-expect-error nothing would be left
    rows.select();
    // @ts-expect-error a text has no such method
    rows.withColumn("half", ({ text }) => text.toFixed());
    // @ts-expect-error a row is an object
    rows.map(({ id }) => id);
    // @ts-expect-error a list is no row
    rows.map(({ id }) => [id]);
    // @ts-expect-error nor is a Map
    rows.flatMap(() => [new Map([["id", 1]])]);
    // @ts-expect-error flatMap wants a list
    rows.flatMap(({ id }) => id);
    // @ts-expect-error a batch is a list, not a row
    rows.mapBatches((batch) => [{ id: batch.id }]);
    // @ts-expect-error with columns it is an object of lists
    rows.mapBatches((batch) => ({ id: batch.map((row) => row) }), { batchFormat: "columns" });
    // @ts-expect-error the class takes other rows
    rows.mapBatches(OfTexts);
    // @ts-expect-error the class needs a number
    rows.mapBatches(Scaled, { constructorArgs: ["ten"] });
    // @ts-expect-error it is not made without
    rows.mapBatches(Scaled);
    // @ts-expect-error nor here
    rows.mapBatches(Scaled, { batchSize: 4 });
    // @ts-expect-error there is no such option
    rows.mapBatches(Scaled, { constructorArgs: [10], batchsize: 4 });
    // @ts-expect-error the answer is a text
    rows.pipe(generate({ model: "m", prompt: "p" })).map(({ answer }) => ({ n: answer.label }));
    // @ts-expect-error the answer is an object of two
    rows.pipe(generate({ model: "m", prompts: { a: "p" } })).map(({ answer }) => answer.b);
    // @ts-expect-error there is no such engine
    generate({ model: { engine: "lama" }, prompt: "p" });
    // @ts-expect-error that engine has no such option
    generate({ model: { engine: "fake", failureShare: 1 }, prompt: "p" });
  };
  expectTypeOf(wrong).returns.toBeVoid();
  expectTypeOf(
    rows.mapBatches(Scaled, { constructorArgs: [10] }).take,
  ).returns.resolves.items.toEqualTypeOf<{
    id: number;
  }>();
});
