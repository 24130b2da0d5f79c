import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { AnswerCache } from "../../../src/run/reuse/answer-cache.ts";
import { maxReusedAnswerChars, reusing } from "../../../src/run/reuse/reusing-engine.ts";
import { responseOf, scriptedEngine, settled } from "../scripted-engine.ts";
import { requestOf } from "./requests.ts";

const never = new AbortController().signal;

function setUp(storage?: Storage, model = "m", accepts = (_text: string) => true) {
  const engine = scriptedEngine(8);
  const lines: string[] = [];
  const logger = { log: (_level: string, message: string) => void lines.push(message) };
  const cache = storage && { cache: new AnswerCache(storage, 1e6) };
  const reuser = reusing(engine, {
    ...{ model, ...cache, logger, random: seededRandom(1) },
    accepts: (_, { answers }) => accepts(answers[0]!.text),
  });
  const ask = (prompt: string, signal = never, changes = {}) =>
    reuser.infer(requestOf(prompt, changes), signal);
  return { engine, reuser, ask, lines };
}

describe("reusing", () => {
  it("asks once for what is asked alike, at once or later", async () => {
    const { engine, ask } = setUp();
    const both = Promise.all([ask("a"), ask("a")]);
    await settled();
    expect(engine.held).toHaveLength(1);
    engine.answerAll();
    const [first, second] = await both;
    const third = await ask("a");
    expect([first, second, third].map(({ reused }) => reused)).toEqual([undefined, true, true]);
    expect(new Set([first, second, third].map(({ answers }) => answers[0]!.text)).size).toBe(1);
  });

  it("tells those who listen all of an answer that others asked for", async () => {
    const { engine, reuser } = setUp();
    const texts: string[] = ["", "", ""];
    const listen = (place: number) =>
      reuser.infer(requestOf("a"), never, ({ text }) => {
        texts[place] += text;
      });
    const both = Promise.all([listen(0), listen(1)]);
    await settled();
    engine.answerAll();
    const [first] = await both;
    await listen(2);
    expect(new Set(texts)).toEqual(new Set([first.answers[0]!.text]));
  });

  it("holds as many characters of answers as fit, the longest unused go first", async () => {
    const { engine, ask } = setUp();
    const answer = async (prompt: string) => {
      const asking = ask(prompt);
      await settled();
      for (const held of [...engine.held]) held.answer("x".repeat(0.4 * maxReusedAnswerChars));
      return (await asking).reused ?? false;
    };
    for (const prompt of ["a", "b"]) await answer(prompt);
    expect(await answer("a")).toBe(true);
    expect(await answer("c")).toBe(false);
    expect([await answer("a"), await answer("c"), await answer("b")]).toEqual([true, true, false]);
  });

  it("asks each where something is sampled without a written seed", async () => {
    const { engine, ask } = setUp();
    void ask("a", never, { temperature: 1 });
    void ask("a", never, { temperature: 1 });
    await settled();
    expect(engine.held).toHaveLength(2);
  });

  it("asks the followers of a failed request themselves", async () => {
    const { engine, ask } = setUp();
    const leader = ask("a");
    const followers = [ask("a"), ask("a")];
    await settled();
    engine.held[0]!.fail(new SluiceError("SERVER_ERROR", ""));
    await expect(leader).rejects.toMatchObject({ code: "SERVER_ERROR" });
    await settled();
    expect(engine.held).toHaveLength(2);
    engine.answerAll();
    const responses = await Promise.all(followers);
    expect(responses.map(({ reused }) => reused)).toEqual([undefined, undefined]);
  });

  it("keeps no answer that is refused, and takes none from a cache", async () => {
    const storage = memoryStorage();
    const answered = async ({ engine, ask }: ReturnType<typeof setUp>) => {
      const asking = ask("a");
      await settled();
      const count = engine.held.length;
      engine.answerAll();
      await asking;
      return count;
    };
    const refusing = setUp(storage, "m", () => false);
    expect([await answered(refusing), await answered(refusing)]).toEqual([1, 1]);
    expect(await answered(setUp(storage))).toBe(1);
    expect(await answered(setUp(storage))).toBe(0);
    expect(await answered(setUp(storage, "m", () => false))).toBe(1);
    expect(await answered(setUp(storage))).toBe(1);
  });

  it("lets a follower leave without the one it waits for", async () => {
    const { engine, ask } = setUp();
    const leader = ask("a");
    const leaving = new AbortController();
    const follower = ask("a", leaving.signal);
    await settled();
    leaving.abort(new SluiceError("ENGINE_DIED", "leaves"));
    await expect(follower).rejects.toThrow("leaves");
    engine.answerAll();
    expect((await leader).reused).toBeUndefined();
  });

  it("takes answers of other runs from the cache, of the same model only", async () => {
    const storage = memoryStorage();
    const before = setUp(storage);
    const asked = before.ask("a");
    await settled();
    before.engine.answerAll();
    const { answers } = await asked;
    const after = setUp(storage);
    expect(await after.ask("a")).toMatchObject({ answers, reused: true });
    const other = setUp(storage, "another");
    void other.ask("a");
    await settled();
    expect(other.engine.held).toHaveLength(1);
  });

  it("goes on without a cache that fails, and says so once", async () => {
    const storage = memoryStorage();
    const broken: Storage = {
      ...storage,
      read: () => Promise.reject(new SluiceError("STORE_FAILED", "disk gone")),
    };
    const { engine, ask, reuser, lines } = setUp(broken);
    const both = Promise.all([ask("a"), ask("b")]);
    await settled();
    engine.answerAll();
    await both;
    await reuser.close();
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("disk gone");
  });

  it("is the engine it stands for in all else", () => {
    const { engine, reuser } = setUp();
    expect(reuser).toMatchObject({ name: engine.name, capacity: engine.capacity });
    expect(responseOf("x").reused).toBeUndefined();
  });
});
