import { describe, expect, it } from "vitest";
import {
  isOwnServer,
  LoadWatch,
  loadPollIntervalMs,
  maxLoadMisses,
} from "../../../../src/engines/openai/pace/load-watch.ts";
import type { ServerLoad } from "../../../../src/engines/openai/pace/server-load.ts";
import { ManualClock } from "../../manual-clock.ts";

function watching(pages: Record<string, string | Error>) {
  const clock = new ManualClock();
  const asked: string[] = [];
  const loads: ServerLoad[] = [];
  const state = { isNeeded: true, lost: 0 };
  const watch = new LoadWatch({
    clock,
    readPage: async (path) => {
      asked.push(path);
      const page = pages[path];
      if (page instanceof Error) throw page;
      return page;
    },
    isNeeded: () => state.isNeeded,
    onLoad: (load) => loads.push(load),
    onLost: () => {
      state.lost++;
    },
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const pass = async (looks: number) => {
    for (let look = 0; look < looks; look++) {
      await turn();
      await clock.advance(loadPollIntervalMs);
    }
    await turn();
  };
  return { clock, asked, loads, state, watch, pass, pages };
}

const metrics = "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n";

describe("LoadWatch", () => {
  it("looks for the page that tells most, and then at that one, every second", async () => {
    const { asked, loads, watch, pass } = watching({ "/slots": '[{"id":0,"is_processing":true}]' });
    watch.start();
    watch.start();
    await pass(3);
    expect(asked).toEqual(["/metrics", "/slots", "/slots", "/slots", "/slots"]);
    expect(loads).toEqual(Array.from({ length: 4 }, () => ({ running: 1, slots: 1 })));
  });

  it("asks once where no page tells, and never again", async () => {
    const { asked, watch, pass, clock, state } = watching({ "/metrics": "other 1\n" });
    watch.start();
    await pass(5);
    watch.start();
    await pass(5);
    expect(asked).toEqual(["/metrics", "/slots", "/props"]);
    expect([clock.timers, state.lost]).toEqual([0, 0]);
  });

  it("looks only while requests are under way", async () => {
    const { asked, watch, pass, state } = watching({ "/metrics": metrics });
    watch.start();
    await pass(2);
    state.isNeeded = false;
    await pass(10);
    const before = asked.length;
    state.isNeeded = true;
    await pass(10);
    expect(asked).toHaveLength(before);
    watch.start();
    await pass(1);
    expect(asked.length).toBeGreaterThan(before);
  });

  it("bears a look or two without a figure, and gives up after that", async () => {
    const { pages, loads, watch, pass, state, clock } = watching({ "/metrics": metrics });
    watch.start();
    await pass(1);
    pages["/metrics"] = new Error("reset");
    await pass(maxLoadMisses - 1);
    pages["/metrics"] = metrics;
    await pass(1);
    expect([loads.length, state.lost]).toEqual([3, 0]);
    pages["/metrics"] = new Error("reset");
    await pass(maxLoadMisses + 2);
    expect([loads.length, state.lost, clock.timers]).toEqual([3, 1, 0]);
  });

  it("tells nothing after it was closed", async () => {
    const { loads, watch, pass, clock } = watching({ "/metrics": metrics });
    watch.start();
    watch.close();
    await pass(3);
    expect([loads, clock.timers]).toEqual([[], 0]);
  });
});

describe("isOwnServer", () => {
  it("is true of what only one's own machines are reached by", () => {
    for (const address of [
      "http://gpu.example.com:8000/v1",
      "http://127.0.0.1:8080/v1",
      "https://localhost:8443/v1",
      "https://10.1.2.3/v1",
      "https://172.20.0.5/v1",
      "https://192.168.1.9/v1",
      "https://vllm.internal/v1",
      "https://vllm.models.svc/v1",
      "https://[::1]:8443/v1",
    ]) {
      expect(isOwnServer(address), address).toBe(true);
    }
  });

  it("is false of hosted services", () => {
    for (const address of [
      "https://api.openai.com/v1",
      "https://10.example.com/v1",
      "https://172.32.0.1/v1",
      "https://8.8.8.8/v1",
    ]) {
      expect(isOwnServer(address), address).toBe(false);
    }
  });
});
