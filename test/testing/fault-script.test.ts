import { describe, expect, it } from "vitest";
import { behaviourOf, type FaultScript } from "../../src/testing/fault-script.ts";

const request = (number: number, body = "") => ({
  ...{ number, body, method: "POST", path: "/", headers: {}, json: {}, earlier: 0 },
});
const kindsOf = (script: FaultScript, count: number, body = "") => {
  const behave = behaviourOf(script);
  return Array.from({ length: count }, (_, at) => behave(request(at, body))?.kind ?? "none");
};

describe("a script of faults", () => {
  it("befalls a share of the requests, the same ones each time", () => {
    const script: FaultScript = {
      seed: 3,
      faults: [
        { behaviour: { kind: "hang" }, share: 0.1 },
        { behaviour: { kind: "html" }, share: 0.3 },
      ],
    };
    const kinds = kindsOf(script, 2000);
    const count = (kind: string) => kinds.filter((it) => it === kind).length;
    expect(Math.abs(count("hang") - 200)).toBeLessThan(70);
    expect(Math.abs(count("html") - 600)).toBeLessThan(110);
    expect(kindsOf(script, 2000)).toEqual(kinds);
    expect(kindsOf({ ...script, seed: 4 }, 2000)).not.toEqual(kinds);
  });

  it("befalls a range of them, and bodies that hold a text", () => {
    const behaviour = { kind: "hang" } as const;
    expect(kindsOf({ faults: [{ behaviour, from: 1, until: 3 }] }, 4)).toEqual(
      "none hang hang none".split(" "),
    );
    const faults = [{ behaviour, containing: "poison" }];
    expect(kindsOf({ faults }, 1, "a poison b")).toEqual(["hang"]);
    expect(kindsOf({ faults }, 1, "a b")).toEqual(["none"]);
  });
});
