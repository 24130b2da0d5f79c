import { describe, expect, it } from "vitest";
import { grammarText } from "../../../src/engines/fake/grammar-text.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { patternGrammar } from "../../../src/prompt/structure/pattern-grammar.ts";

const patterns = [
  "^abc$",
  "b+",
  "^a|b$",
  "^(?:a|b){2,3}$",
  "^(?<year>\\d{4})-\\d\\d?$",
  "^[^\\d\\s]{3}$",
  "^[\\w.-]+@[a-z]+(\\.[a-z]{2,})+$",
  "^[a\\-\\]\\u00e0-\\u00ff]{4,}$",
  "^\\u{1f600}\\x41\\t\\n$",
  "^\\W\\D\\S.$",
  "^(a?b*?|c{3})+$",
  '^"\\\\"$',
  "^\\/\\.\\*$",
  "^(|x)$",
  "^\\s+$",
  "",
];

describe("patternGrammar", () => {
  for (const pattern of patterns) {
    it(`writes texts that match ${JSON.stringify(pattern)}, as JSON strings`, () => {
      const root = patternGrammar(pattern)!;
      const found = new Set<string>();
      for (let seed = 0; seed < 200; seed++) {
        const text = grammarText({ root, rules: {} }, seededRandom(seed));
        const value = JSON.parse(`"${text}"`) as string;
        expect(value).toMatch(new RegExp(pattern, "u"));
        found.add(value);
      }
      expect(found.size).toBeGreaterThan(0);
    });
  }

  for (const pattern of [
    "(?=a)b",
    "(?<!a)b",
    "a\\b",
    "(a)\\1",
    "\\p{L}",
    "a^b",
    "a$b",
    "^\\x00$",
  ]) {
    it(`leaves ${pattern} to the check`, () => {
      expect(patternGrammar(pattern)).toBeUndefined();
    });
  }
});
