import { describe, expect, it } from "vitest";
import { EventTime, KneeServer, type KneeServerOptions } from "../../../../bench/knee-server.ts";
import { maxFoundInFlight } from "../../../../src/engines/openai/pace/limit-finder.ts";
import { openPace, type Pace, type PaceOptions } from "../../../../src/engines/openai/pace/pace.ts";
import { seededRandom } from "../../../../src/foundation/random.ts";

function paceOf(changes: Partial<PaceOptions> = {}) {
  const time = new EventTime();
  const lines: Record<string, unknown>[] = [];
  const pace = openPace({
    clock: time,
    random: seededRandom(4),
    logger: { log: (_level, message, fields) => void lines.push({ message, ...fields }) },
    endpoint: "http://127.0.0.1:8000/v1",
    ...changes,
  });
  return { time, pace, lines };
}

const answered = (headers = {}) => ({
  ...{ outcome: "answered" as const, promptTokens: 10, completionTokens: 20, headers },
});
const limited = (retryAfterMs?: number) => ({
  ...{ outcome: "limited" as const, headers: {}, retryAfterMs },
});

/** Admits as many as it may now. */
function admitAll(pace: Pace, tokens = 1) {
  const admissions = [];
  for (let next = pace.tryAdmit(tokens); next; next = pace.tryAdmit(tokens)) admissions.push(next);
  return admissions;
}

/** Has a server asked as much as the pace allows; says what it had at each moment. */
function drive(pace: Pace, server: KneeServer, time: EventTime, atMost = 1e9) {
  const random = seededRandom(9);
  const state = { answered: 0, most: 0, least: 1e9, isDown: false };
  const pump = () => {
    state.least = Math.min(state.least, pace.limit);
    while (pace.inFlight < atMost) {
      const completionTokens = 1 + Math.round(200 * random.next());
      const work = { promptTokens: 100, completionTokens, maxTokens: 256 };
      const admission = pace.tryAdmit(356);
      if (!admission) return;
      state.most = Math.max(state.most, pace.inFlight);
      if (state.isDown) {
        time.schedule(5, () => admission.end({ outcome: "failed" }));
        continue;
      }
      server.send(work, ({ status, headers, retryAfterMs }) => {
        if (status === 200) state.answered++;
        admission.end(
          status === 200
            ? { outcome: "answered", ...work, headers }
            : { outcome: "limited", retryAfterMs, headers },
        );
      });
    }
  };
  pace.onRoom(pump);
  pump();
  return state;
}

const served = (time: EventTime, changes: Partial<KneeServerOptions> = {}) =>
  new KneeServer({
    ...{ time, beyond: "queue", kneeAt: () => 64, aloneTokensPerSecond: 60, halfSpeedAt: 64 },
    ...{ overheadMs: 80, ...changes },
  });

describe("a pace with a fixed limit", () => {
  it("admits so many at once, and tells of each place that becomes free", () => {
    const { pace } = paceOf({ maxInFlight: 3 });
    const told: number[] = [];
    pace.onRoom(() => told.push(pace.inFlight));
    const admissions = admitAll(pace);
    expect([admissions.length, pace.inFlight, pace.limit]).toEqual([3, 3, 3]);
    admissions[0]!.end(answered());
    admissions[1]!.end({ outcome: "abandoned" });
    expect([told, admitAll(pace).length]).toEqual([[2, 1], 2]);
  });

  it("goes below it where the endpoint refuses, and never above", async () => {
    const { pace, time } = paceOf({ maxInFlight: 100 });
    const server = served(time, { beyond: "refuse", kneeAt: (ms) => (ms < 300_000 ? 30 : 500) });
    const state = drive(pace, server, time);
    await time.runUntil(290_000);
    expect(pace.limit).toBeGreaterThanOrEqual(29);
    expect(pace.limit).toBeLessThanOrEqual(31);
    await time.runUntil(900_000);
    expect([pace.limit, state.most]).toEqual([100, 100]);
  });
});

describe("a pace that finds its limit", () => {
  it("is never below one or above its bound, whatever the server does", async () => {
    for (const beyond of ["queue", "thrash", "refuse"] as const) {
      const { pace, time } = paceOf();
      const kneeAt = (ms: number) => [3000, 2, 60][Math.floor(ms / 100_000) % 3]!;
      const state = drive(pace, served(time, { beyond, kneeAt }), time);
      await time.runUntil(900_000);
      expect(state.most).toBeLessThanOrEqual(maxFoundInFlight);
      expect(state.least).toBeGreaterThanOrEqual(1);
      expect(state.answered).toBeGreaterThan(1000);
    }
  });

  it("comes back after an outage", async () => {
    const { pace, time } = paceOf();
    const state = drive(pace, served(time), time);
    await time.runUntil(300_000);
    const before = state.answered;
    state.isDown = true;
    await time.runUntil(310_000);
    expect(pace.limit).toBeLessThan(20);
    state.isDown = false;
    await time.runUntil(410_000);
    const [meanwhile] = [state.answered];
    await time.runUntil(710_000);
    expect((state.answered - meanwhile) / before).toBeGreaterThan(0.95);
  });

  it("keeps a short queue at a server that tells its load", async () => {
    const time = new EventTime();
    const server = served(time);
    const readPage = async (path: string) => (path === "/metrics" ? server.metrics : undefined);
    const { pace, lines } = paceOf({ clock: time, readPage });
    drive(pace, server, time);
    await time.runUntil(120_000);
    expect(pace.limit).toBeGreaterThanOrEqual(66);
    expect(pace.limit).toBeLessThanOrEqual(78);
    pace.close();
    expect(lines).toMatchObject([{ message: "requests at once", by: "server's queue" }]);
  });
});

describe("a pace at an endpoint that refuses", () => {
  const hour = 3_600_000;
  /** Answers an hour at an endpoint that has so many requests all the time. */
  async function bestOf(atOnce: number): Promise<number> {
    const { pace, time } = paceOf({ maxInFlight: atOnce });
    const state = drive(pace, served(time), time);
    await time.runUntil(hour);
    return state.answered;
  }

  it.each([0, 1000, 5000, 20_000])(
    "fills it, though it asks for waits of %i ms",
    async (waitMs) => {
      const { pace, time } = paceOf();
      const server = served(time, {
        ...{ beyond: "refuse", kneeAt: () => 24, retryAfterMs: waitMs },
      });
      const state = drive(pace, server, time);
      await time.runUntil(hour);
      expect(state.answered / (await bestOf(24))).toBeGreaterThan(0.97);
      expect(server.refused / state.answered).toBeLessThan(0.01);
    },
  );

  it.each(["queue", "refuse"] as const)(
    "is not held back by one refusal in seven that comes by chance, beyond its knee: %s",
    async (beyond) => {
      const { pace, time } = paceOf();
      const chance = seededRandom(3);
      const refusesByChance = () => chance.next() < 1 / 7;
      const server = served(time, {
        ...{ beyond, kneeAt: () => 24, retryAfterMs: 1000, refusesByChance },
      });
      const state = drive(pace, server, time);
      await time.runUntil(hour);
      expect(state.answered / (await bestOf(24))).toBeGreaterThan(0.9);
    },
  );

  it("shares it alike with another one, whoever comes first", async () => {
    const { pace, time } = paceOf();
    const server = served(time, { beyond: "refuse", kneeAt: () => 48, retryAfterMs: 5000 });
    const first = drive(pace, server, time);
    await time.runUntil(hour / 2);
    const other = paceOf({ clock: time, random: seededRandom(5) });
    const second = drive(other.pace, server, time);
    await time.runUntil(hour);
    const before = [first.answered, second.answered];
    await time.runUntil(2 * hour);
    const share = (first.answered - before[0]!) / (second.answered - before[1]!);
    expect(share).toBeGreaterThan(0.6);
    expect(share).toBeLessThan(1.6);
  });
});

describe("waits", () => {
  it("are the refused request's alone where others are answered", () => {
    const { pace } = paceOf({ maxInFlight: 10 });
    const all = admitAll(pace);
    expect(pace.isAnswering).toBe(true);
    all.at(-1)!.end(limited(20_000));
    all[0]!.end(answered());
    expect(pace.tryAdmit(1)).toBeDefined();
  });

  it("obeys Retry-After where none is answered, and lets requests in one by one then", async () => {
    const { pace, time } = paceOf({ maxInFlight: 10 });
    for (const admission of admitAll(pace)) admission.end(answered());
    pace.tryAdmit(1)!.end(limited(5000));
    expect(pace.isAnswering).toBe(false);
    pace.tryAdmit(1)!.end(limited(20));
    expect(pace.tryAdmit(1)).toBeUndefined();
    await time.runUntil(4999);
    expect(pace.tryAdmit(1)).toBeUndefined();
    const counts: number[] = [];
    pace.onRoom(() => counts.push(admitAll(pace).length));
    await time.runUntil(20_000);
    expect(counts[0]).toBe(1);
    expect(Math.max(...counts)).toBe(1);
    expect(pace.inFlight).toBe(pace.limit);
  });

  it("grow where nothing but refusals comes, though the endpoint asks for none", async () => {
    const { pace, time } = paceOf();
    const times: number[] = [];
    const pump = () => {
      for (let next = pace.tryAdmit(1); next; next = pace.tryAdmit(1)) {
        const admission = next;
        times.push(time.monotonic());
        time.schedule(10, () => admission.end(limited()));
      }
    };
    pace.onRoom(pump);
    pump();
    await time.runUntil(600_000);
    expect(times.length).toBeLessThan(80);
    expect(times.at(-1)! - times.at(-2)!).toBeGreaterThan(1000);
  });

  it("keep to the rates of the job, also with requests that end at once", async () => {
    const { pace, time } = paceOf({ requestsPerMinute: 120, tokensPerMinute: 1e9 });
    const times: number[] = [];
    const pump = () => {
      for (let next = pace.tryAdmit(50); next; next = pace.tryAdmit(50)) {
        const admission = next;
        times.push(time.monotonic());
        time.schedule(1, () => admission.end(answered()));
      }
    };
    pace.onRoom(pump);
    pump();
    await time.runUntil(180_000);
    for (const from of [0, 30_000, 60_000, 120_000]) {
      const inMinute = times.filter((at) => at >= from && at < from + 60_000).length;
      expect(inMinute).toBeLessThanOrEqual(120);
      expect(inMinute).toBeGreaterThan(114);
    }
  });

  it("keep to what headers say is left, so that nothing is refused", async () => {
    const { pace, time } = paceOf();
    const server = served(time, { kneeAt: () => 1e6, tokensPerMinuteAt: () => 60_000 });
    const state = drive(pace, server, time);
    await time.runUntil(600_000);
    expect(server.refused).toBe(0);
    // 200 tokens a request, of 356 that are asked for and granted.
    expect(state.answered).toBeGreaterThan(0.9 * (600_000 / 356));
  });
});

describe("the log", () => {
  it("has one line at the end, with what was reached; none where nothing was sent", () => {
    const { pace, lines } = paceOf({ maxInFlight: 4 });
    paceOf().pace.close();
    for (const admission of admitAll(pace)) admission.end(answered());
    pace.close();
    expect(lines).toEqual([
      {
        ...{ message: "requests at once", endpoint: "http://127.0.0.1:8000/v1" },
        ...{ maxInFlight: 4, by: "job", highest: 4, allowed: 4, refused: 0 },
      },
    ]);
  });
});
