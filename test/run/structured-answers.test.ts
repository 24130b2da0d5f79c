import { describe, expect, it, onTestFinished } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import type { JobInput } from "../../src/run/job/schema.ts";
import {
  type ReceivedRequest,
  type ServerBehaviour,
  startFakeServer,
} from "../../src/testing/fake-server.ts";
import { linesOf } from "./run-fixture.ts";
import { carriedOut, filesOf, preparedRun, scratchFolder, textOf } from "./whole-run.ts";

const directions = ["Heat to 220 °C.", "Bake 35 minutes.", "Cool 5 minutes, then cut."];
const rows = directions.map((text, id) => `${JSON.stringify({ id, text })}\n`).join("");
const schema: JsonObject = {
  type: "object",
  properties: {
    kind: { enum: ["heat", "wait", "other"] },
    times: {
      type: "array",
      maxItems: 2,
      items: {
        type: "object",
        properties: {
          time: { type: "string", copyFrom: "text", maxWords: 2, pattern: "\\d+ minutes" },
        },
        required: ["time"],
      },
    },
  },
  required: ["kind", "times"],
};

/** The results and dead letters of a run to its end. */
async function outcomeOf(changes: Partial<JobInput>) {
  const folder = scratchFolder();
  const run = preparedRun(folder, rows, { schema, ...changes });
  const output = { ...run.job.output, include: ["spans" as const, "attempts" as const] };
  const whole = { ...run, job: { ...run.job, output } };
  const { summary, error } = await carriedOut(whole);
  const read = (prefix: string) =>
    linesOf(
      filesOf(whole)
        .filter((path) => path.startsWith(prefix))
        .map((path) => textOf(whole, path))
        .join(""),
    );
  return { summary, error, results: read("part-"), letters: read("_dead-letters/") };
}

/** A server that says to each row what `answers` has for it, by the number of the try. */
async function serverSaying(answers: (row: number, attempt: number) => ServerBehaviour | string) {
  const bodies: JsonObject[] = [];
  const tries = directions.map(() => 0);
  const server = await startFakeServer({
    behave: ({ json }: ReceivedRequest) => {
      // A look at the server's metrics has none.
      if (json === undefined) return undefined;
      bodies.push(json);
      const messages = json.messages as { content: string }[];
      const row = directions.findIndex((text) => messages[0]!.content.includes(text));
      const attempt = tries[row]!++;
      const said = answers(row, attempt);
      return typeof said === "string" ? { kind: "answer", text: said } : said;
    },
  });
  onTestFinished(() => server.close());
  return { bodies, model: { engine: "openai", name: "m", baseUrl: server.baseUrl } as const };
}

const right = '{"kind": "wait", "times": [{"time": "35 minutes"}]}';

describe("a run whose answers have a schema", () => {
  it("gets nothing else from the fake engine, and keeps where copied words stand", async () => {
    const { summary, results } = await outcomeOf({});
    expect(summary.rows.answered).toBe(3);
    type Result = {
      text: string;
      answer: { kind: string; times: { time: string }[] };
      answerMetadata: [{ spans: Record<string, [number, number]> }];
    };
    for (const { answer, answerMetadata, text } of results as Result[]) {
      const { kind, times } = answer;
      expect(["heat", "wait", "other"]).toContain(kind);
      const [{ spans }] = answerMetadata;
      const copied = times.flatMap(({ time }, at) =>
        time === "" ? [] : [[`/times/${at}/time`, time]],
      );
      const stand = Object.entries(spans).map(([at, [start, end]]) => [at, text.slice(start, end)]);
      expect(stand).toEqual(copied);
    }
  });

  it("asks again with what was wrong, and gives a row up with its last answer", async () => {
    const { bodies, model } = await serverSaying((row, attempt) => {
      if (row === 0) return '{"kind": "heat", "times": [{"time": "20 minutes"}]}';
      if (row === 1) return ["Sure!", '{"kind": "bake", "times": []}', right][attempt]!;
      return '{"kind": "other", "times": [{"time": "5 Minutes"}]}';
    });
    const { results, letters } = await outcomeOf({ model, maxFailedRows: 1 });
    expect(results).toMatchObject([
      {
        id: 1,
        answer: { kind: "wait", times: [{ time: "35 minutes" }] },
        answerMetadata: [{ attempts: 3, spans: { "/times/0/time": [5, 15] } }],
      },
      { id: 2, answer: { kind: "other", times: [{ time: "5 minutes" }] } },
    ]);
    expect(letters).toMatchObject([
      {
        id: 0,
        code: "ANSWER_INVALID",
        message: expect.stringContaining('/times/0/time is "20 minutes", not copied word by word'),
        attempts: 3,
        lastAnswer: '{"kind": "heat", "times": [{"time": "20 minutes"}]}',
      },
    ]);
    const told = bodies
      .map(({ messages }) => (messages as { content: string }[]).map(({ content }) => content))
      .filter(([asked, answered]) => asked!.includes("Bake") && answered !== undefined)
      .map(([, answered, complaint]) => [answered, complaint]);
    expect(told).toEqual([
      [
        "Sure!",
        expect.stringMatching(
          /^That is not right: .*it is not JSON[\s\S]*\nAnswer again.* JSON only\.$/,
        ),
      ],
      [
        '{"kind": "bake", "times": []}',
        expect.stringContaining('/kind must be one of "heat", "wait", "other", not "bake"'),
      ],
    ]);
  });

  it("sends each row the words that it may copy", async () => {
    const { bodies, model } = await serverSaying(() => '{"kind": "other", "times": []}');
    await outcomeOf({ model });
    const formats = bodies.map(({ response_format: format }) => format);
    const allowed = formats.map(
      (format) => /"time":\{"type":"string","enum":(\[.*?\])\}/.exec(JSON.stringify(format))![1],
    );
    expect(allowed.sort()).toEqual(['["","35 minutes"]', '["","5 minutes"]', '[""]']);
  });

  it("stops where the server refuses the schema, and says what to set", async () => {
    const message = "response_format type must be one of text or json_object";
    const refusal: ServerBehaviour = { kind: "status", status: 400, body: { error: { message } } };
    const { model } = await serverSaying(() => refusal);
    const fixed = { type: "object", properties: { kind: { type: "string" } } };
    const { error } = await outcomeOf({ model, schema: fixed });
    expect(error).toMatchObject({
      code: "STRUCTURE_REFUSED",
      hint: expect.stringContaining("set model.structuredOutput to grammar (llama-server)"),
    });
    const { letters } = await outcomeOf({ model, maxFailedRows: 3 });
    expect(letters.map(({ code }) => code)).toEqual(Array(3).fill("REQUEST_REFUSED"));
  });

  it("is the same after a schema among several prompts, and for elements of a list", async () => {
    const ofPrompts = {
      schema: undefined,
      prompt: undefined,
      prompts: {
        plain: "Say {{ text }}",
        words: {
          forEach: "text | sentences",
          prompt: "{{ item }}",
          schema: { type: "string", copyFrom: "item", maxWords: 1 },
        },
      },
    };
    const { results } = await outcomeOf(ofPrompts);
    for (const { text, answer } of results as { text: string; answer: { words: string[] } }[]) {
      expect(answer.words.length).toBeGreaterThan(0);
      for (const word of answer.words) expect(text).toContain(word);
    }
  });
});
