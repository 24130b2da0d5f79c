import { describe, expect, it } from "vitest";
import { loadPredictorModule } from "../../../src/engines/predictor/load-module.ts";
import type { PredictorItem } from "../../../src/engines/predictor/predictor.ts";
import { rejectionOf } from "../engine-context.ts";
import { moduleFolder } from "./module-folder.ts";

const moduleFile = moduleFolder();
const batch = [{ row: { n: 2 }, index: 0, promptName: "row" }] satisfies PredictorItem[];
const call = { signal: new AbortController().signal };

async function predicted(source: string, exportName?: string, ending?: string) {
  const predictor = await loadPredictorModule(moduleFile(source, ending), exportName);
  await predictor.load?.({ options: {}, device: undefined } as never);
  return predictor.predict(batch, call);
}

describe("loadPredictorModule", () => {
  it.each([
    [
      "functions",
      "export const predict = (batch: { row: { n: number } }[]) => batch.map(({ row }) => row.n);",
    ],
    ["a default function", "export default (batch: any[]) => batch.map(({ row }) => row.n);"],
    [
      "a default object",
      "export default { predict: (batch: any[]) => batch.map(({ row }) => row.n) };",
    ],
    [
      "a class, with its state",
      "export default class Numbers { factor = 0; load() { this.factor = 1; }\n" +
        "predict(batch: any[]) { return batch.map(({ row }) => row.n * this.factor); } }",
    ],
    [
      "a handler of TorchServe",
      "export class Handler { postprocess(data: any) { return data.map(({ body }) => body.n); } }\n" +
        "export default Handler;",
    ],
  ])("takes %s", async (_, source) => {
    expect(await predicted(source)).toEqual([2]);
  });

  it("takes CommonJS, and the export that is named", async () => {
    const common = "module.exports = { predict: (batch) => batch.map(({ row }) => row.n) };";
    expect(await predicted(common, undefined, "cjs")).toEqual([2]);
    const named =
      "export const a = 1; export const twice = (b: any[]) => b.map(({ row }) => 2 * row.n);";
    expect(await predicted(named, "twice")).toEqual([4]);
  });

  it("takes what a compiler made of a default export", async () => {
    const compiled =
      'Object.defineProperty(exports, "__esModule", { value: true });' +
      "exports.default = { predict: (batch) => batch.map(({ row }) => row.n) };";
    expect(await predicted(compiled, undefined, "cjs")).toEqual([2]);
  });

  it.each([
    [
      "import './nowhere.ts'; export const predict = 1;",
      undefined,
      /it does not load: .*nowhere\.ts/,
    ],
    ["throw new Error('no licence');", undefined, /it does not load: no licence/],
    ["export const predcit = () => [];", undefined, /it exports predcit; did you mean predict\?/],
    ["export const answer = () => [];", undefined, /it exports answer; needed is predict\(batch\)/],
    ["export const limit = 3;", undefined, /it exports no function; needed is predict\(batch\)/],
    ["export default 7;", undefined, /its export is a number/],
    [
      "export class Model { predict() { return []; } }",
      "Modell",
      /no export Modell .*did you mean Model\?/,
    ],
    ["export const predict = () => [];", "translate", /no export translate .*it exports predict/],
    [
      "export default class Model { constructor() { throw new Error('no'); } }",
      undefined,
      /new Model\(\) failed: no/,
    ],
    [
      "export const laod = () => {}; export const predict = () => [];",
      undefined,
      /it exports laod, which nobody calls; did you mean load\?/,
    ],
    [
      "export default class Handler { initialise() {} inference(data: unknown) { return data; } }",
      undefined,
      /it exports initialise, .*did you mean initialize\?/,
    ],
    [
      "export const predict = () => []; export const preprocess = (data: unknown) => data;",
      undefined,
      /it exports predict and preprocess, of two life cycles.*beside predict nobody calls preprocess/,
    ],
    [
      "export default class Model { load() {} handle() {} initialize() {} }",
      undefined,
      /it exports load, initialize and handle, .*beside handle nobody calls load/,
    ],
    [
      "export const load = () => {}; export default () => [];",
      undefined,
      /its default export is used, and load, beside it, is called by nobody/,
    ],
  ])("refuses %s", async (source, exportName, message) => {
    const path = moduleFile(source);
    const error = await rejectionOf(loadPredictorModule(path, exportName));
    expect(error).toMatchObject({ code: "PREDICTOR_UNUSABLE", place: { file: path } });
    expect(error?.message).toMatch(message);
  });

  it("minds no helpers with names of their own", async () => {
    const source =
      "export const log = () => {}; export const predict = (b: any[]) => b.map(() => 1);";
    expect(await predicted(source)).toEqual([1]);
  });
});
