import { describe, expect, it } from "vitest";
import { Release, releaseMs } from "../../../../src/engines/openai/pace/pace.ts";

describe("Release", () => {
  it("keeps nobody out before anything was refused", () => {
    const release = new Release();
    expect([release.waitMs(0), release.roomMs(0, 50, 100)]).toEqual([0, 0]);
  });

  it("waits, the longest of what was asked for, and lets requests in one by one then", () => {
    const release = new Release();
    release.pause(5000, 0);
    release.pause(3000, 0);
    expect(release.waitMs(1000)).toBe(4000);
    expect(release.waitMs(5000)).toBe(0);
    expect(release.roomMs(5000, 0, 10)).toBe(0);
    expect(release.roomMs(5000, 1, 10)).toBe(releaseMs / 10);
    expect(release.roomMs(5000 + releaseMs / 2, 4, 10)).toBe(0);
    expect(release.roomMs(5000 + releaseMs, 9, 10)).toBe(0);
  });

  it("does not count those that stayed meanwhile", () => {
    const release = new Release();
    release.pause(1000, 7);
    expect(release.roomMs(1000, 7, 10)).toBe(0);
    expect(release.roomMs(1000, 8, 10)).toBeGreaterThan(0);
  });
});
