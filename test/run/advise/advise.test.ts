import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { limits } from "../../../src/foundation/limits.ts";
import {
  type AdviceFacts,
  advise,
  maxAdvisedShardMs,
  shardOverheadMs,
} from "../../../src/run/advise/advise.ts";
import { exactly } from "../../../src/run/bill/interval.ts";

/** Ten hours of work: 36,000 rows of a second, on machines that start in a minute. */
function factsOf(changes: Partial<AdviceFacts> & { secondsPerRow?: number } = {}): AdviceFacts {
  const { secondsPerRow = 1, ...others } = changes;
  return {
    rows: 36_000,
    plannedRowsPerShard: 100,
    speed: { startSeconds: 60, rowSeconds: 4, secondsPerRow: exactly(secondsPerRow) },
    machineStartSeconds: 0,
    journal: "disk",
    ...others,
  };
}

const overhead = shardOverheadMs / 1000;
const someFacts = fc
  .record({
    rows: fc.integer({ min: 1, max: 1e6 }),
    secondsPerRow: fc.double({ min: 1e-4, max: 100, noNaN: true }),
    machineStartSeconds: fc.integer({ min: 0, max: 1000 }),
    journal: fc.constantFrom("disk" as const, "store" as const),
    preemptionEverySeconds: fc.option(fc.integer({ min: 600, max: 1e5 }), { nil: undefined }),
    deadlineSeconds: fc.option(fc.integer({ min: 60, max: 1e5 }), { nil: undefined }),
    usdPerHour: fc.option(fc.double({ min: 0.01, max: 40, noNaN: true }), { nil: undefined }),
  })
  .map(({ preemptionEverySeconds, deadlineSeconds, usdPerHour, ...facts }) =>
    factsOf({
      ...facts,
      ...(preemptionEverySeconds !== undefined && { preemptionEverySeconds }),
      ...(deadlineSeconds !== undefined && { deadlineSeconds }),
      ...(usdPerHour !== undefined && { usdPerHour }),
    }),
  );

describe("advise", () => {
  it("counts the start of a machine: as if the time were that much shorter", () => {
    const { proposed, meetsDeadline, startSeconds } = advise(factsOf({ deadlineSeconds: 7200 }));
    // Five workers have two hours of work each, and start for a minute: one too few.
    expect(proposed.workers).toBe(6);
    expect(meetsDeadline).toBe(true);
    expect(startSeconds).toBe(60);
    const slow = advise(factsOf({ deadlineSeconds: 7200, machineStartSeconds: 3540 }));
    expect(slow.startSeconds).toBe(3600);
    expect(slow.proposed.workers).toBe(11);
    expect(slow.proposed.seconds.estimated).toBeGreaterThan(3600 + 36_000 / 11);
  });

  it("cuts tasks by the root of twice their cost and the time that they are at stake", () => {
    const { options } = advise(factsOf({ deadlineSeconds: 7200 }));
    const one = options.find(({ workers }) => workers === 1)!;
    const best = Math.sqrt(2 * overhead * 36_000);
    expect(one.shardSeconds).toBeGreaterThan(best * 0.9);
    expect(one.shardSeconds).toBeLessThan(best * 1.1);
    const preempted = advise(factsOf({ deadlineSeconds: 7200, preemptionEverySeconds: 900 }));
    const smaller = preempted.options.find(({ workers }) => workers === 1)!;
    expect(smaller.shardSeconds).toBeLessThan(one.shardSeconds);
    expect(smaller.shardSeconds).toBeCloseTo(
      Math.sqrt((2 * overhead) / (1 / 36_000 + 1 / 900)),
      -1,
    );
    const inStore = advise(factsOf({ deadlineSeconds: 7200, journal: "store" }));
    expect(inStore.options[0]!.shardSeconds).toBeGreaterThan(one.shardSeconds);
  });

  it("makes preemptions cost the start and what the journal does not hold", () => {
    const facts = { deadlineSeconds: 1e6, preemptionEverySeconds: 3600 };
    const onDisk = advise(factsOf(facts));
    // Rows in flight are half done; of a store's journal half an interval is lost as well.
    expect(onDisk.lostSecondsPerPreemption).toBe(2);
    const inStore = advise(factsOf({ ...facts, journal: "store" }));
    expect(inStore.lostSecondsPerPreemption).toBe(2 + limits.maxSegmentAgeMs / 2000);
    expect(onDisk.lostSecondsWithoutJournal).toBe(2 + onDisk.proposed.shardSeconds / 2);
    // A task that is shorter than an interval is committed before the journal would be put there.
    const short = advise(factsOf({ ...facts, journal: "store", rows: 100, secondsPerRow: 0.1 }));
    expect(short.lostSecondsPerPreemption).toBe(2 + short.proposed.shardSeconds / 2);
    const calm = advise(factsOf({ deadlineSeconds: 1e6 }));
    const [with_, without] = [onDisk, calm].map(({ options }) => options[0]!.seconds.estimated);
    // exp((60 + 2) / 3600): a machine in 62 seconds of each hour does nothing that stays.
    expect((with_! - 60) / (without! - 60)).toBeCloseTo(Math.exp(62 / 3600), 2);
  });

  it("says where no number of workers meets a deadline", () => {
    const { meetsDeadline, proposed, warnings } = advise(factsOf({ deadlineSeconds: 61 }));
    expect(meetsDeadline).toBe(false);
    expect(proposed.workers).toBeGreaterThan(200);
    expect(warnings).toEqual([expect.stringContaining("no number of workers up to 256")]);
  });

  it("without a deadline takes as many as cost a tenth more at most", () => {
    const { proposed, options, meetsDeadline } = advise(factsOf({ usdPerHour: 2 }));
    expect(meetsDeadline).toBeNull();
    const cheapest = options[0]!;
    expect(proposed.workers).toBeGreaterThan(20);
    expect(proposed.usd!.estimated).toBeLessThanOrEqual(1.1 * cheapest.usd!.estimated);
    expect(cheapest.usd!.estimated).toBeCloseTo((2 * cheapest.seconds.estimated) / 3600, 6);
    const next = options.find(({ workers }) => workers >= 2 * proposed.workers)!;
    expect(next.usd!.estimated).toBeGreaterThan(1.1 * cheapest.usd!.estimated);
    expect(advise(factsOf()).proposed.usd).toBeNull();
  });

  it("goes by the upper bound of what was measured", () => {
    const speed = {
      startSeconds: 60,
      rowSeconds: 4,
      secondsPerRow: { estimated: 1, low: 0.5, high: 2 },
    };
    expect(advise(factsOf({ deadlineSeconds: 7200 })).proposed.workers).toBe(6);
    const unsure = advise(factsOf({ deadlineSeconds: 7200, speed })).proposed;
    // Twenty hours of work at worst, and a minute's start.
    expect(unsure.workers).toBe(11);
    expect(unsure.seconds.low).toBeLessThan(unsure.seconds.estimated);
    expect(unsure.seconds.high).toBeLessThanOrEqual(7200);
  });

  it("warns of tasks above 30 minutes", () => {
    expect(advise(factsOf({ plannedRowsPerShard: 1800 })).warnings).toEqual([]);
    expect(advise(factsOf()).warnings).toEqual([]);
    const planned = advise(factsOf({ plannedRowsPerShard: 2000 })).warnings;
    expect(planned).toEqual([expect.stringContaining("a task takes 33 minutes")]);
    const slowRows = advise(factsOf({ rows: 10, plannedRowsPerShard: 1, secondsPerRow: 1801 }));
    expect(slowRows.warnings).toContainEqual(expect.stringContaining("a single row takes"));
  });

  it("knows that a piece that cannot be cut goes to one worker", () => {
    const facts = factsOf({ deadlineSeconds: 7200, uncutRows: 30_000 });
    const { meetsDeadline, proposed, warnings } = advise(facts);
    expect(meetsDeadline).toBe(false);
    expect(proposed.workers).toBeLessThan(3);
    expect(proposed.seconds.estimated).toBeGreaterThan(30_000);
    expect(warnings).toContainEqual(expect.stringContaining("30,000 rows lie in one piece"));
    const even = advise(factsOf({ deadlineSeconds: 7200, uncutRows: 50 }));
    expect(even.proposed).toEqual(advise(factsOf({ deadlineSeconds: 7200 })).proposed);
    expect(even.warnings).toEqual([]);
  });

  it("counts the starts that are lost before the first row", () => {
    const facts = { machineStartSeconds: 540, preemptionEverySeconds: 600, deadlineSeconds: 1e9 };
    const { options, startSeconds } = advise(factsOf({ ...facts, rows: 1 }));
    expect(startSeconds).toBe(600);
    // A machine that starts as long as it is kept on the average: e − 1 times that, on the average.
    const { estimated } = options[0]!.seconds;
    expect(estimated).toBeGreaterThan(600 * (Math.E - 1));
    expect(estimated).toBeLessThan(600 * (Math.E - 1) + 10);
  });

  it("has bounds that hold when machines are taken away more often than on average", () => {
    const calm = advise(factsOf({ deadlineSeconds: 1e6 })).options[0]!.seconds;
    expect(calm.high).toBe(calm.estimated);
    const facts = factsOf({ deadlineSeconds: 1e6, preemptionEverySeconds: 3600 });
    const { low, estimated, high } = advise(facts).options[0]!.seconds;
    // About ten preemptions, ± 6.2 in 95 of 100 runs, a minute of start and 2 s of rows each.
    expect(high - estimated).toBeGreaterThan(62 * 6);
    expect(high - estimated).toBeLessThan(62 * 6.5);
    expect(estimated - low).toBeLessThanOrEqual(high - estimated);
    expect(low).toBeGreaterThanOrEqual(36_060);
  });

  it("warns of machines that are gone before they are there", () => {
    const { warnings } = advise(factsOf({ machineStartSeconds: 600, preemptionEverySeconds: 600 }));
    expect(warnings).toEqual([expect.stringContaining("longer to start than it is kept")]);
  });

  it("holds for a job without rows, and for one whose rows take no time", () => {
    for (const facts of [factsOf({ rows: 0 }), factsOf({ secondsPerRow: 0 })]) {
      const { proposed } = advise({ ...facts, deadlineSeconds: 3600, usdPerHour: 1 });
      expect(proposed.workers).toBe(1);
      expect(proposed.seconds.estimated).toBeLessThan(100);
      expect(proposed.lostShare).toBe(1);
    }
  });

  it("leaves no row out, keeps to its limits, and is no faster than the work", () => {
    fc.assert(
      fc.property(someFacts, (facts) => {
        const { options, proposed, meetsDeadline, startSeconds } = advise(facts);
        const { rows, speed, deadlineSeconds } = facts;
        expect(options).toContain(proposed);
        for (const { workers, shards, rowsPerShard, seconds, shardSeconds, lostShare } of options) {
          expect(shards * rowsPerShard).toBeGreaterThanOrEqual(rows);
          expect((shards - 1) * rowsPerShard).toBeLessThan(rows);
          expect(rowsPerShard).toBeLessThanOrEqual(limits.maxTaskRows);
          const work = (rows * speed.secondsPerRow.estimated) / workers;
          expect(seconds.estimated).toBeGreaterThanOrEqual((startSeconds + work) * (1 - 1e-9));
          const longest = Math.max(maxAdvisedShardMs / 1000, 1.5 * speed.secondsPerRow.high);
          expect(shardSeconds).toBeLessThanOrEqual(1.5 * longest);
          expect(lostShare).toBeGreaterThanOrEqual(0);
          expect(lostShare).toBeLessThanOrEqual(1);
          if (meetsDeadline === true && workers < proposed.workers) {
            expect(seconds.high).toBeGreaterThan(deadlineSeconds!);
          }
        }
        if (meetsDeadline) expect(proposed.seconds.high).toBeLessThanOrEqual(deadlineSeconds!);
      }),
      { numRuns: 40 },
    );
  });
});
