import { openLlamaFrom } from "../src/engines/llama/engine.ts";
import type { GrammarNode } from "../src/foundation/grammar.ts";
import {
  type AnswerStructure,
  greedyParameters,
  type InferenceRequest,
} from "../src/foundation/inference.ts";
import { engineContext, findLlamaFiles } from "../test/integration/llama-files.ts";
import { wordsUnder } from "./loads.ts";
import type { BenchResult } from "./result.ts";
import { median } from "./rounds.ts";
import type { BenchSetting } from "./setting.ts";

const sequences = 16;
const requests = 32;
const maxNewTokens = 64;

const characters: GrammarNode = {
  kind: "characters",
  ranges: [
    [0x20, 0x21],
    [0x23, 0x5b],
    [0x5d, 0x10ffff],
  ],
};
const text: GrammarNode = { kind: "repeat", item: characters, min: 0 };
const quote: GrammarNode = { kind: "text", text: '"' };
/** A list of texts, of which nothing is forced but quotes and commas: the dearest case. */
const structure: AnswerStructure = {
  schema: {},
  grammar: {
    root: {
      kind: "sequence",
      items: [
        { kind: "text", text: '["' },
        text,
        quote,
        {
          kind: "repeat",
          item: { kind: "sequence", items: [{ kind: "text", text: ', "' }, text, quote] },
          min: 0,
        },
        { kind: "text", text: "]" },
      ],
    },
    rules: {},
  },
};

/**
 * What a form costs a generated token at 16 sequences: the same prompts, the same number of tokens,
 * with a form that leaves nearly all to the model and without one. Empty where there is no model.
 */
export async function benchStructure(setting: BenchSetting): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  if (files.missing !== undefined) {
    console.log(`structure: skipped, ${files.missing}`);
    return [];
  }
  const engine = await openLlamaFrom({ ...files, sequences, contextTokens: 512 }, engineContext);
  const millisecondsOf = async (form: AnswerStructure | undefined, round: number) => {
    const asked = prompts(round).map((prompt, index) => requestOf(prompt, index, form));
    const startedMs = performance.now();
    const { signal } = new AbortController();
    const responses = await Promise.all(asked.map((request) => engine.infer(request, signal)));
    const tokens = responses.reduce((sum, { usage }) => sum + usage.completionTokens, 0);
    return (performance.now() - startedMs) / tokens;
  };
  try {
    const [free, formed]: [number[], number[]] = [[], []];
    for (let round = 0; round < setting.rounds; round++) {
      free.push(await millisecondsOf(undefined, 2 * round));
      formed.push(await millisecondsOf(structure, 2 * round + 1));
    }
    const [baseline, value] = [median(free), median(formed)];
    const cost = { name: "structure, cost of a token", value: value - baseline, unit: "ms" };
    return [
      { name: "structure, a token", value, unit: "ms", baseline, ratio: baseline / value },
      { ...cost, baseline, ratio: baseline / value, atMost: 3 },
    ];
  } finally {
    await engine.close();
  }
}

function prompts(round: number): string[] {
  const next = wordsUnder(100 + round);
  const words = () => Array.from({ length: 24 }, next).join(" ");
  return Array.from({ length: requests }, () => `A list of sayings on ${words()}, as JSON:\n`);
}

function requestOf(
  prompt: string,
  index: number,
  form: AnswerStructure | undefined,
): InferenceRequest {
  return {
    ...{ prompt, origin: { index, promptName: "p" } },
    parameters: {
      ...greedyParameters,
      maxNewTokens,
      seed: 0,
      ignoreEos: true,
    },
    ...(form && { structure: form }),
  };
}
