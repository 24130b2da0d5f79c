import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { promptTypes } from "../../../src/prompt/types/registry.ts";
import type { TurnsPolicy } from "../../../src/prompt/types/turns.ts";
import {
  type TypeOptions,
  typeOptions,
  userDefinedType,
} from "../../../src/prompt/types/type-options.ts";
import { compileTypedPrompt } from "../../../src/prompt/types/typed-prompt.ts";

interface GoldenCase {
  type: string | JsonObject;
  typeOptions?: TypeOptions;
  turns?: TurnsPolicy;
  eosToken?: string;
  row: JsonObject;
  prompt?: string;
  messages?: object[];
}

const folder = join(import.meta.dirname, "golden");
const files = readdirSync(folder).map((name) => ({
  name,
  cases: JSON.parse(readFileSync(join(folder, name), "utf8")) as GoldenCase[],
}));

function rendered({ type, row, typeOptions: options = {}, ...rest }: GoldenCase): unknown {
  const own = typeof type === "string" ? type : userDefinedType.parse(type);
  const { turns, eosToken } = rest;
  const typed = compileTypedPrompt(
    { type: own, typeOptions: typeOptions.parse(options), turns, eosToken },
    "prompt",
  );
  const [ask, ...more] = typed.asks(row);
  expect(more).toEqual([]);
  return typed.content(ask!, []);
}

describe("prompts of known types", () => {
  for (const { name, cases } of files) {
    describe(name, () => {
      it.each(cases.map((one, at) => [`${at}: ${JSON.stringify(one.type)}`, one] as const))(
        "%s",
        (_, one) => {
          const { prompt, messages } = one;
          expect(rendered(one)).toEqual(prompt === undefined ? { messages } : { prompt });
        },
      );
    });
  }

  it("are all here: every type in one file at least", () => {
    const named = new Set(files.flatMap(({ cases }) => cases.map(({ type }) => type)));
    expect(promptTypes.length).toBeGreaterThanOrEqual(40);
    const missing = promptTypes.filter(({ names }) => !names.some((name) => named.has(name)));
    expect(missing.map(({ names }) => names[0])).toEqual([]);
  });
});
