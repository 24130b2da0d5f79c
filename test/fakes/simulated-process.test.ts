import { describe, expect, it } from "vitest";
import { channelPair } from "../../src/foundation/channel.ts";
import { sleep } from "../../src/foundation/clock.ts";
import { SimulatedProcess } from "./simulated-process.ts";
import { virtualClock } from "./virtual-clock.ts";

describe("SimulatedProcess", () => {
  it("hears of nothing while it is paused, and of everything when it goes on", async () => {
    const clock = virtualClock();
    const process = new SimulatedProcess(clock);
    const heard: string[] = [];
    const [near, far] = channelPair<{ text: string }, { text: string }>();
    process.guard(far).onMessage(({ text }) => void heard.push(text));
    process.clock.schedule(5, () => void heard.push("timer"));
    process.pause();
    near.send({ text: "message" });
    await clock.run(sleep(clock, 10));
    expect(heard).toEqual([]);
    process.resume();
    await process.alive();
    expect(heard).toEqual(["message", "timer"]);
  });

  it("never goes on once it is killed", async () => {
    const clock = virtualClock();
    const process = new SimulatedProcess(clock);
    const heard: string[] = [];
    process.clock.schedule(5, () => void heard.push("timer"));
    process.pause();
    void process.alive().then(() => heard.push("alive"));
    process.kill();
    process.resume();
    await process.death;
    await clock.run(sleep(clock, 10));
    expect(heard).toEqual([]);
    expect(process.state).toBe("killed");
  });

  it("takes a timer back that came due during a pause", async () => {
    const clock = virtualClock();
    const process = new SimulatedProcess(clock);
    let fired = 0;
    const cancel = process.clock.schedule(5, () => fired++);
    process.pause();
    await clock.run(sleep(clock, 10));
    cancel();
    process.resume();
    expect(fired).toBe(0);
  });
});
