import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { commandDescription } from "../../../src/engines/command/description.ts";
import { commandModel } from "../../../src/engines/command/options.ts";
import { unsupportedOptions } from "../../../src/engines/registry.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";
import { modelContext } from "../models/context.ts";

const parse = (changes: object) =>
  commandModel.parse({ engine: "command", command: "x", ...changes });

describe("commandDescription", () => {
  it("runs the program in the folder of the job file, unless the job says otherwise", () => {
    const { withAbsolutePaths } = commandDescription;
    const absolute = (text: string) => join("/jobs", text);
    expect(withAbsolutePaths!(parse({}), absolute).workingDirectory).toBe("/jobs");
    const inside = parse({ workingDirectory: "scripts" });
    expect(withAbsolutePaths!(inside, absolute).workingDirectory).toBe("/jobs/scripts");
  });

  it("counts the files that the command line names among what answers follow from", async () => {
    const workingDirectory = await mkdtemp(join(tmpdir(), "sluice-command-"));
    const digestOf = async (changes: object) =>
      (await commandDescription.identified!(parse({ workingDirectory, ...changes }))).filesSha256;
    const script = join(workingDirectory, "predict.py");
    await writeFile(script, "one");
    const first = await digestOf({ args: ["predict.py", "--rows", 3] });
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(await digestOf({ args: ["-u", script] })).toBe(first);
    await writeFile(script, "two");
    expect(await digestOf({ args: ["predict.py"] })).not.toBe(first);
    expect(await digestOf({ command: "./predict.py" })).toBe(await digestOf({ args: [script] }));
    expect(await digestOf({ args: ["-m", "module", "."] })).toBe(undefined);
  });

  it("hands everything to the program but log-probabilities, and cuts no prompts", () => {
    const { logprobs, ...others } = commandDescription.support(parse({}));
    expect(logprobs).toContain("leave it out");
    expect(Object.values(others).every((each) => each === true)).toBe(true);
    const parameters = { ...greedyParameters, maxNewTokens: 8, seed: 7 };
    const refused = unsupportedOptions(parse({}), parameters, ["fail", "truncate-left"]);
    expect(refused).toMatchObject([{ option: "onTooLong: truncate-left" }]);
  });

  it("refuses more replicas than there are devices", () => {
    const asked = { engine: "command", command: "x", replicas: 3, devices: [0, 1] };
    expect(commandModel.safeParse(asked).error?.issues[0]?.path).toEqual(["replicas"]);
    expect(commandDescription.devices!(parse({ replicas: 2, devices: [0, 1] }))).toEqual({
      ...{ perWorker: 2, devices: [0, 1] },
    });
  });

  it("refuses, before a run, a program that is missing and a secret in its arguments", async () => {
    const { assertEnvironment, check } = commandDescription;
    const environment = { PATH: "/nowhere", HF_TOKEN: "hf_0123456789" };
    const context = { ...(await modelContext()), environment };
    await expect(check!(parse({}), context)).rejects.toMatchObject({ code: "PROGRAM_MISSING" });
    await expect(check!(parse({ command: process.execPath }), context)).resolves.toBeUndefined();
    const args = ["--token", "hf_0123456789"];
    expect(() => assertEnvironment!(parse({ args }), environment)).toThrow("the value of HF_TOKEN");
    expect(() => assertEnvironment!(parse({ args: ["--rows", 3] }), environment)).not.toThrow();
  });
});
