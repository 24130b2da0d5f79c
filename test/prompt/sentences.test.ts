import { describe, expect, it } from "vitest";
import { splitSentences } from "../../src/prompt/sentences.ts";

describe("splitSentences", () => {
  it.each<[string, string[]]>([
    [
      "Heat oven to 350 degrees F. Bake until set.",
      ["Heat oven to 350 degrees F.", "Bake until set."],
    ],
    [
      "Warm the oven to 375 degrees F (190 degrees C). Oil 2 trays.",
      ["Warm the oven to 375 degrees F (190 degrees C).", "Oil 2 trays."],
    ],
    ["Add 1 tsp. salt and 2 tbsp. Crisco. Stir.", ["Add 1 tsp. salt and 2 tbsp. Crisco.", "Stir."]],
    ["Roll into balls of 1 oz. Place on a tray.", ["Roll into balls of 1 oz.", "Place on a tray."]],
    [
      "Cook approx. 5 min. Add a No. 2 can of beans.",
      ["Cook approx. 5 min.", "Add a No. 2 can of beans."],
    ],
    ["Cook 5 min. or so. Rest.", ["Cook 5 min. or so.", "Rest."]],
    ["Pour in 1.5 cups and .25 l more. Mix.", ["Pour in 1.5 cups and .25 l more.", "Mix."]],
    ["Wait... then stir. Wait… Serve.", ["Wait... then stir.", "Wait…", "Serve."]],
    ["1. Heat oil. 2. Fry it.", ["1. Heat oil.", "2. Fry it."]],
    ["Chill (do not stir. It splits.) Serve.", ["Chill (do not stir. It splits.)", "Serve."]],
    ["Cool first (never skip. Then cut.", ["Cool first (never skip.", "Then cut."]],
    ["Bake at 350. remove the pan.", ["Bake at 350.", "remove the pan."]],
    ["Pour into glasses.For garnish use mint.", ["Pour into glasses.", "For garnish use mint."]],
    ["See www.example.com. Enjoy!", ["See www.example.com.", "Enjoy!"]],
    ['"Done!" she said. So it was.', ['"Done!" she said.', "So it was."]],
    ["Is it brown? Flip it!", ["Is it brown?", "Flip it!"]],
    ["Use herbs, e.g. thyme, i.e. fresh ones.", ["Use herbs, e.g. thyme, i.e. fresh ones."]],
    [
      "At 3 p.m. Serve it. Heat to 180C. Rest.",
      ["At 3 p.m.", "Serve it.", "Heat to 180C.", "Rest."],
    ],
    ["• Mix\n• Fold in\nthe cream", ["Mix", "Fold in the cream"]],
    ["Mix.\r\n\r\nAdd  the   eggs", ["Mix.", "Add the eggs"]],
    [" \n . \n", []],
    ["", []],
  ])("%j", (text, sentences) => {
    expect([...splitSentences(text)]).toEqual(sentences);
  });

  it.each([".", ". ", ".)", "((. ", "e.g. ", "a", " \n", "1 "])(
    "ends at once for many %j",
    (part) => {
      const many = part.repeat(Math.floor(200_000 / part.length));
      for (const text of [many, `${many}x`, `${many}. Stir.`, `Stir (${many}`]) {
        expect([...splitSentences(text)].length).toBeLessThan(text.length);
      }
    },
  );
});
