import { describe, expect, it } from "vitest";
import {
  argumentValue,
  refuseArguments,
  withDefaults,
} from "../../../src/engines/managed/arguments.ts";

const parallel = { flags: ["-np", "--parallel"], value: 32 } as const;

describe("arguments of a server", () => {
  it("have defaults before those of the job", () => {
    expect(withDefaults(["--metrics"], [parallel])).toEqual(["-np", "32", "--metrics"]);
  });

  it("of the job win, whichever name and form they have", () => {
    for (const args of [["-np", "8"], ["--parallel", "8"], ["--parallel=8"]]) {
      expect(withDefaults(args, [parallel])).toEqual(args);
    }
    const underscores = ["--max_num_seqs", "8"];
    expect(withDefaults(underscores, [{ flags: ["--max-num-seqs"], value: 4 }])).toEqual(
      underscores,
    );
  });

  it("without a value are left out", () => {
    expect(withDefaults([], [{ flags: ["-t"], value: undefined }])).toEqual([]);
  });

  it("are read as they are given last", () => {
    const flags = ["-tp", "--tensor-parallel-size"];
    expect(argumentValue(["-tp", "2", "--tensor_parallel_size=4"], flags)).toBe("4");
    expect(argumentValue(["-tp", "2"], flags)).toBe("2");
    expect(argumentValue(["--other", "2"], flags)).toBeUndefined();
  });

  it("that are Sluice's own are refused, with what to do instead", () => {
    const reserved = { "--port": "leave it out" };
    expect(() => refuseArguments(["--metrics", "--port=80"], reserved)).toThrow(
      expect.objectContaining({ code: "JOB_INVALID", hint: "leave it out" }),
    );
    expect(() => refuseArguments(["--metrics", "80"], reserved)).not.toThrow();
  });
});
