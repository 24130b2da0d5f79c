import { describe, expect, it } from "vitest";
import {
  bookings,
  fleetSchema,
  mountsOf,
  storePlace,
} from "../../../src/run/fleet/fleet-schema.ts";

const bookingsOf = (given: object) => bookings(fleetSchema.parse(given));

describe("bookings", () => {
  it("give each program a worker, and let small ones share one", () => {
    expect(bookingsOf({})).toEqual({ instances: 1, workers: { max: 10, cpu: 1 } });
    expect(bookingsOf({ cpu: 24, memory: "120G", gpu: "l40s:1", maxScale: 1 })).toEqual({
      instances: 1,
      workers: { max: 1, cpu: 24, memory: "120G", gpu: "l40s:1" },
    });
    expect(bookingsOf({ cpu: 0.25, maxScale: 8 })).toEqual({
      instances: 4,
      workers: { max: 2, cpu: 1 },
    });
    expect(bookingsOf({ cpu: 0.25, memory: "1.5G", maxScale: 10 })).toEqual({
      instances: 1,
      workers: { max: 10, cpu: 0.25, memory: "1.5G" },
    });
    // No more than are wanted side by side, and as nearly as many as few enough workers allow.
    for (const [maxScale, cpu, instances, max] of [
      [10, 0.25, 2, 5],
      [3, 0.5, 1, 3],
      [7, 0.25, 1, 7],
      [101, 0.1, 10, 10],
    ] as const) {
      expect(bookingsOf({ cpu, maxScale })).toMatchObject({ instances, workers: { max } });
    }
    expect(bookingsOf({ cpu: 0.1, maxScale: 3 })).toMatchObject({
      instances: 3,
      workers: { max: 1, cpu: expect.closeTo(0.3) },
    });
    expect(bookingsOf({ cpu: 4, memory: "1.5G", gpu: "h100:0.5", maxScale: 8 })).toEqual({
      instances: 2,
      workers: { max: 4, cpu: 8, memory: "3G", gpu: "h100:1" },
    });
    // Each has its GPUs for itself, however little else it books.
    expect(bookingsOf({ cpu: 0.1, gpu: "1", maxScale: 8 })).toEqual({
      instances: 1,
      workers: { max: 8, cpu: 0.1, gpu: "1" },
    });
    const gpus = ["l40s:2", "l40s", "2", "0.5"].map((gpu) => bookingsOf({ gpu }).workers.gpu);
    expect(gpus).toEqual(["l40s:2", "l40s:1", "2", "1"]);
  });
});

describe("keys of a fleet", () => {
  it("say what they must be", () => {
    const faults = (given: object) =>
      fleetSchema.safeParse(given).error?.issues.map(({ path, message }) => [path[0], message]);
    const given = { command: [true], env: { A: 1 }, mountDataStore: 3, gpu: "" };
    expect(faults(given)).toEqual([
      ["command", expect.stringContaining("a list of texts: words such as true and 1 need quotes")],
      ["env", "must be a text, or null for the caller's value"],
      ["mountDataStore", "must be places by their paths, as /input: STORE:/PREFIX"],
      ["gpu", expect.stringContaining("as l40s:1, or a number")],
    ]);
  });
});

describe("places in stores", () => {
  const stores = { input: "s3://bucket/base/", local: "/data" };

  it("are a store with a prefix, or written out", () => {
    const places = {
      "input:/recipes/": { store: "input", location: "s3://bucket/base/recipes" },
      "input:recipes": { store: "input", location: "s3://bucket/base/recipes" },
      "input:": { store: "input", location: "s3://bucket/base/" },
      local: { store: "local", location: "/data" },
      "s3://other/x": { location: "s3://other/x" },
      "./folder": { location: "./folder" },
      "/folder:1": { location: "/folder:1" },
    };
    for (const [text, place] of Object.entries(places)) {
      expect(storePlace(text, stores, "--tasks-from"), text).toEqual(place);
    }
    expect(() => storePlace("inptu:/x", stores, "--tasks-from")).toThrow(
      expect.objectContaining({ hint: "did you mean input?" }),
    );
  });

  it("have a path where programs find them", () => {
    const read = (...mountDataStore: string[]) => mountsOf({ mountDataStore }, stores);
    expect(read("/in/deep=input:/a=b", "/in=local")).toEqual([
      { path: "/in/deep", store: "input", location: "s3://bucket/base/a=b" },
      { path: "/in", store: "local", location: "/data" },
    ]);
    for (const text of ["in=input:/", "/=input:/", "/in/=input:/", "/in", "/in="]) {
      expect(() => read(text), text).toThrow("is not /PATH=STORE:/PREFIX");
    }
    expect(() => read("/in=input", "/in=local")).toThrow("/in is given twice");
  });
});
