import { describe, expect, it } from "vitest";
import { PrefixKeys } from "../../../../src/engines/openai/routing/prefix-keys.ts";

const chat = (system: string, user: string) => ({
  messages: [
    { role: "system" as const, content: system },
    { role: "user" as const, content: user },
  ],
});
const long = (name: string) => `${name} is described at length. `.repeat(40);

describe("PrefixKeys", () => {
  it("are equal for requests that begin with the same long text, and differ for others", () => {
    const keys = new PrefixKeys();
    const of = (document: string, question: string) =>
      keys.keyOf({ prompt: `${long(document)}\n${question}` });
    expect(of("amber", "Who?")).toBe(of("amber", "When?"));
    expect(of("amber", "Who?")).not.toBe(of("birch", "Who?"));
  });

  it("are those of system messages, where these differ", () => {
    const keys = new PrefixKeys();
    const of = (system: string, question: string) => keys.keyOf(chat(long(system), question));
    for (const system of ["amber", "birch"]) of(system, "Why?");
    expect(of("amber", "Who?")).toBe(of("amber", "Where to?"));
    expect(of("amber", "Who?")).not.toBe(of("birch", "Who?"));
  });

  it("look behind the instructions that all requests begin with", () => {
    const keys = new PrefixKeys();
    const instructions = long("the task");
    const of = (document: string, question: string) =>
      keys.keyOf(chat(instructions, `${long(document)}\n${question}`));
    for (const document of ["amber", "birch", "cedar"]) of(document, "Why?");
    expect(of("amber", "Who?")).toBe(of("amber", "When?"));
    expect(of("amber", "Who?")).not.toBe(of("birch", "Who?"));
  });

  it("find the instructions again after a row without them", () => {
    const keys = new PrefixKeys();
    const of = (document: string, question: string) =>
      keys.keyOf(chat(long("the task"), `${long(document)}\n${question}`));
    const ask = (count: number) => {
      for (let at = 0; at < count; at++) of(`document ${at}`, "Why?");
    };
    ask(10);
    keys.keyOf({ prompt: long("nothing of the kind") });
    expect(of("amber", "Who?")).toBe(of("birch", "Who?"));
    ask(1100);
    expect(of("amber", "Who?")).not.toBe(of("birch", "Who?"));
    expect(of("amber", "Who?")).toBe(of("amber", "When?"));
  });

  it("are told apart by short texts, and equal for equal requests", () => {
    const keys = new PrefixKeys();
    const prompts = Array.from({ length: 100 }, (_, at) => `${at} is a number`);
    const found = prompts.map((prompt) => keys.keyOf({ prompt }));
    expect(new Set(found).size).toBeGreaterThan(90);
    expect(prompts.map((prompt) => keys.keyOf({ prompt }))).toEqual(found);
    expect(keys.keyOf({})).toBe(keys.keyOf({ prompt: "" }));
  });
});
