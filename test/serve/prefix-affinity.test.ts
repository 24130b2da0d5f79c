import { describe, expect, it } from "vitest";
import { loadBound } from "../../src/foundation/bounded-load.ts";
import type { ChatMessage } from "../../src/foundation/inference.ts";
import { randomInteger, seededRandom } from "../../src/foundation/random.ts";
import { mostRoom, PrefixAffinity } from "../../src/serve/prefix-affinity.ts";

const replicasOf = (count: number, concurrency = 8) =>
  Array.from({ length: count }, (_, place) => ({ place, inFlight: 0, concurrency }));

const system: ChatMessage = { role: "system", content: "Answer briefly." };

/** The turns of a chat up to its `turn`th question. */
function chat(name: number, turn: number): ChatMessage[] {
  const turns = Array.from({ length: turn }, (_, at): ChatMessage[] => [
    { role: "user", content: `question ${at} of ${name}` },
    { role: "assistant", content: `answer ${at} to ${name}` },
  ]);
  return [system, ...turns.flat(), { role: "user", content: `question ${turn} of ${name}` }];
}

describe("PrefixAffinity", () => {
  it("sends the turns of a chat to one replica, and new chats where there is room", () => {
    const affinity = new PrefixAffinity();
    const replicas = replicasOf(2);
    const first = affinity.choose(chat(1, 0), replicas);
    // Its share, and a quarter more: another chat with the same system prompt would come here too.
    first.inFlight += 2;
    const second = affinity.choose(chat(2, 0), replicas);
    expect(second).not.toBe(first);
    second.inFlight += 2;
    for (let turn = 1; turn < 4; turn++) {
      expect(affinity.choose(chat(2, turn), replicas)).toBe(second);
      expect(affinity.choose(chat(1, turn), replicas)).toBe(first);
    }
    // Both have the system prompt, so that it decides nothing.
    second.inFlight++;
    expect(affinity.choose(chat(3, 0), replicas)).toBe(first);
  });

  it("passes a full replica over, and then keeps to the other", () => {
    const affinity = new PrefixAffinity();
    const replicas = replicasOf(2, 2);
    const holder = affinity.choose(chat(1, 0), replicas);
    const [other] = replicas.filter((each) => each !== holder);
    holder.inFlight = 2;
    expect(affinity.choose(chat(1, 1), replicas)).toBe(other);
    holder.inFlight = 0;
    expect(affinity.choose(chat(1, 2), replicas)).toBe(other);
  });

  it("passes a full replica over also where all are nearly full", () => {
    const affinity = new PrefixAffinity();
    const replicas = replicasOf(2, 4);
    const holder = affinity.choose(chat(1, 0), replicas);
    const [other] = replicas.filter((each) => each !== holder);
    // With a quarter more than its share, it would hold one more than it computes.
    [holder.inFlight, other!.inFlight] = [4, 3];
    expect(affinity.choose(chat(1, 1), replicas)).toBe(other);
  });

  it("asks none that has left", () => {
    const affinity = new PrefixAffinity();
    const replicas = replicasOf(2);
    replicas[0]!.inFlight = 1;
    expect(affinity.choose(chat(1, 0), replicas).place).toBe(1);
    expect(affinity.choose(chat(1, 1), replicas.slice(0, 1)).place).toBe(0);
  });

  it("meets known beginnings more often than the least work, within the bound of the load", () => {
    for (let seed = 1; seed <= 5; seed++) {
      const [withIt, without] = [true, false].map((isUsed) => hitsOf(seed, isUsed));
      expect(withIt!.turns).toBe(without!.turns);
      expect(withIt!.hits / withIt!.turns, `seed ${seed}`).toBeGreaterThan(0.7);
      expect(without!.hits / without!.turns, `seed ${seed}`).toBeLessThan(0.45);
    }
  });
});

/** Chats with random turns on four replicas: how many later turns came where the last one was. */
function hitsOf(seed: number, isUsed: boolean) {
  const random = seededRandom(seed);
  const affinity = new PrefixAffinity();
  const replicas = replicasOf(4, 16);
  const turns = new Map<number, { turn: number; place: number }>();
  const working: ReturnType<typeof replicasOf> = [];
  const seen = { turns: 0, hits: 0 };
  for (let step = 0; step < 800; step++) {
    const name = randomInteger(random, 60);
    const last = turns.get(name);
    const turn = (last?.turn ?? -1) + 1;
    const chosen = isUsed ? affinity.choose(chat(name, turn), replicas) : mostRoom(replicas)!;
    const inFlight = working.length;
    const most = Math.ceil((loadBound * (inFlight + 1)) / replicas.length);
    if (chosen.inFlight >= most) throw new Error(`${chosen.inFlight} of at most ${most}`);
    if (last && turn > 0) {
      seen.turns++;
      if (last.place === chosen.place) seen.hits++;
    }
    turns.set(name, { turn: turn > 8 ? -1 : turn, place: chosen.place });
    chosen.inFlight++;
    working.push(chosen);
    while (working.length > 24 + randomInteger(random, 16)) {
      const [ended] = working.splice(randomInteger(random, working.length), 1);
      ended!.inFlight--;
    }
  }
  return seen;
}
