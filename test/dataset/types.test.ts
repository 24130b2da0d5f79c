import { expectTypeOf, it } from "vitest";
import { z } from "zod";
import { dataset, generate } from "../../src/index.ts";

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
  const columns = rows.mapBatches(({ id }) => ({ twice: id.map((each) => 2 * each) }), {
    batchFormat: "columns",
  });
  expectTypeOf(columns.take).returns.resolves.items.toEqualTypeOf<{ twice: number }>();
  expectTypeOf(dataset.from(["a"]).take).returns.resolves.items.toMatchTypeOf<{ data: string }>();
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
    // @ts-expect-error a text has no such method
    rows.withColumn("half", ({ text }) => text.toFixed());
    // @ts-expect-error a row is an object
    rows.map(({ id }) => id);
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
    // @ts-expect-error there is no such option
    rows.mapBatches(Scaled, { constructorArgs: [10], batchsize: 4 });
    // @ts-expect-error the answer is a text
    rows.pipe(generate({ model: "m", prompt: "p" })).map(({ answer }) => ({ n: answer.label }));
    // @ts-expect-error there is no such engine
    generate({ model: { engine: "lama" }, prompt: "p" });
  };
  expectTypeOf(wrong).returns.toBeVoid();
  expectTypeOf(
    rows.mapBatches(Scaled, { constructorArgs: [10] }).take,
  ).returns.resolves.items.toEqualTypeOf<{
    id: number;
  }>();
});
