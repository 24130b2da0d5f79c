import { describe, expect, it } from "vitest";
import { LimitFinder, startInFlight } from "../../../../src/engines/openai/pace/limit-finder.ts";
import {
  loadPollIntervalMs,
  maxLoadMisses,
} from "../../../../src/engines/openai/pace/load-watch.ts";
import { ManualClock } from "../../manual-clock.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

function finding(pages: Record<string, string> = {}, endpoint = "http://127.0.0.1:8000/v1") {
  const clock = new ManualClock();
  const asked: string[] = [];
  const state = { inFlight: 16, changes: 0 };
  const finder = new LimitFinder({
    ...{ clock, endpoint },
    readPage: async (path) => {
      asked.push(path);
      return pages[path];
    },
    isNeeded: () => true,
    inFlight: () => state.inFlight,
    onChange: () => {
      state.changes++;
    },
  });
  const answer = (size = 100) =>
    finder.answered({
      ...{ durationMs: 1000, size, meanInFlight: 16, admittedAtMs: 0, endedAtMs: clock.now() },
      ...{ limitAtAdmission: 16, wasFull: true },
    });
  const look = async () => {
    await turn();
    await clock.advance(loadPollIntervalMs);
    await turn();
  };
  return { finder, pages, asked, state, answer, look };
}

const idle = "vllm:num_requests_running 16\nvllm:num_requests_waiting 0\n";

describe("LimitFinder", () => {
  it("begins modestly, and goes by goodput where the server tells nothing", async () => {
    const { finder, asked, answer, look } = finding();
    expect(finder.limit).toBe(startInFlight);
    finder.admitted();
    expect(asked).toEqual([]);
    for (let count = 0; count < 12; count++) answer();
    await look();
    expect(asked).toEqual(["/metrics", "/slots", "/props"]);
    expect(finder.by).toBe("goodput");
    expect(finder.limit).toBeGreaterThan(startInFlight);
  });

  it("goes by the server's queue where that is told, and says so", async () => {
    const { finder, answer, look, state } = finding({ "/metrics": idle });
    answer();
    await look();
    expect(finder.by).toBe("server's queue");
    expect(finder.limit).toBe(2 * startInFlight);
    expect(state.changes).toBeGreaterThan(0);
    finder.close();
  });

  it("goes on from where it is when the server tells no more", async () => {
    const { finder, answer, look, pages } = finding({ "/metrics": idle });
    answer();
    await look();
    delete pages["/metrics"];
    for (let count = 0; count <= maxLoadMisses; count++) await look();
    expect(finder.by).toBe("goodput");
    expect(finder.limit).toBe(2 * startInFlight);
  });

  it("never asks a hosted service for its load", async () => {
    const { asked, answer, look } = finding({ "/metrics": idle }, "https://api.example.com/v1");
    answer();
    await look();
    expect(asked).toEqual([]);
  });

  it("goes down where every fourth request fails, not where one in a hundred does", () => {
    const { finder, answer } = finding();
    for (let count = 0; count < 300; count++) {
      if (count % 100 === 50) finder.failed();
      else answer();
    }
    const before = finder.limit;
    expect(before).toBeGreaterThanOrEqual(startInFlight);
    for (let count = 0; count < 40; count++) finder.failed();
    expect(finder.limit).toBeLessThan(startInFlight / 2);
    expect(finder.limit).toBeGreaterThanOrEqual(1);
  });
});
