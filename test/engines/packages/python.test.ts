import { writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { locateEnginePackage } from "../../../src/engines/packages/packages.ts";
import { findPython } from "../../../src/engines/packages/python.ts";
import { modelContext, pathWithProgram, temporaryFolder } from "../models/context.ts";

/** A `python3` of that version, whose pip does what the script says. */
const python = (version: string, pip = "exit 1") =>
  pathWithProgram(
    "python3",
    `if [ "$1" = -c ]; then echo /opt/python; echo ${version}; exit; fi\n${pip}`,
  );

describe("findPython", () => {
  it("takes the first that there are packages for", async () => {
    const context = await modelContext({ PATH: await python("3.12") });
    expect(await findPython(context)).toEqual({ executable: "/opt/python", version: "3.12" });
  });

  it.each(["3.9", "3.15", "2.7"])("refuses Python %s, and says what it needs", async (version) => {
    const [alone] = (await python(version)).split(delimiter);
    const context = await modelContext({ PATH: alone! });
    await expect(findPython(context)).rejects.toMatchObject({
      code: "ENGINE_MISSING",
      message: expect.stringContaining(`/opt/python is ${version}`),
      hint: expect.stringMatching(/Python 3\.10 to 3\.14.*engine llama/),
    });
  });

  it("says where there is none at all", async () => {
    const context = await modelContext({ PATH: await temporaryFolder() });
    await expect(findPython(context)).rejects.toMatchObject({
      code: "ENGINE_MISSING",
      message: expect.stringContaining("there is none"),
    });
  });
});

describe("locateEnginePackage of openvino", () => {
  const machine = { platform: "linux", architecture: "x64", hardware: "cpu" } as const;

  it("is not installed where that is forbidden", async () => {
    const context = { ...(await modelContext({ PATH: await python("3.11") })), machine };
    const located = locateEnginePackage("openvino", context, { install: false });
    await expect(located).rejects.toMatchObject({
      code: "ENGINE_MISSING",
      hint: "run sluice engine add openvino",
    });
  });

  it("says what pip says, and leaves nothing behind", async () => {
    const folder = await temporaryFolder();
    const program = join(folder, "real-python");
    const script = `#!/bin/sh\necho "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES" >&2\nexit 1\n`;
    await writeFile(program, script, { mode: 0o755 });
    const path = await pathWithProgram("python3", `echo ${program}; echo 3.11`);
    const context = { ...(await modelContext({ PATH: path })), machine };
    const located = locateEnginePackage("openvino", context, { install: true });
    await expect(located).rejects.toMatchObject({
      code: "ENGINE_INSTALL_FAILED",
      message: expect.stringContaining("DO NOT MATCH THE HASHES"),
    });
  });
});
