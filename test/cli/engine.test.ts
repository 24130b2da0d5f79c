import { describe, expect, it } from "vitest";
import * as engine from "../../src/cli/commands/engine.ts";
import { pathWithProgram, temporaryFolder } from "../engines/models/context.ts";
import { runOne } from "./model-terminal.ts";

const npm = `modules=node_modules/node-llama-cpp
mkdir -p $modules/dist
for name in linux-x64 linux-arm64 linux-armv7l linux-x64-cuda linux-x64-cuda-ext; do
  mkdir -p node_modules/@node-llama-cpp/$name
done
echo '{"version":"3.22.1"}' > $modules/package.json
echo 'export {};' > $modules/dist/index.js`;

describe("sluice engine", () => {
  it("adds, lists and removes; twice is fine", async (context) => {
    context.skip(process.platform !== "linux", "the lock list holds Linux packages only");
    const workingDirectory = await temporaryFolder();
    const environment = { SLUICE_HOME: "home", PATH: await pathWithProgram("npm", npm) };
    const run = (...args: string[]) =>
      runOne("engine", engine, args, { workingDirectory, environment });
    expect((await run("list")).stdout).toMatch(/llama +node-llama-cpp 3\.22\.1 +can be added/);
    const added = await run("add", "llama");
    expect(added).toMatchObject({ code: 0, stderr: "engine llama  starting  from npm\n" });
    expect(added.stdout).toContain("llama: added 3.22.1\n");
    expect((await run("add", "llama")).stdout).toContain("is here already");
    const again = JSON.parse((await run("add", "llama", "--json")).stdout) as unknown;
    expect(again).toMatchObject({ added: false, version: "3.22.1", source: "home" });
    expect(JSON.parse((await run("list", "--json")).stdout)).toMatchObject([
      { engine: "llama", located: { source: "home" } },
      { engine: "openvino" },
      { engine: "transformers" },
    ]);
    expect((await run("remove", "llama")).stdout).toContain("free again");
    expect((await run("remove", "llama")).stdout).toContain("was not here");
  });

  it("refuses what it does not know", async () => {
    const workingDirectory = await temporaryFolder();
    const environment = { SLUICE_HOME: "home" };
    const run = (...args: string[]) =>
      runOne("engine", engine, args, { workingDirectory, environment });
    expect(await run("add", "lama")).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("did you mean llama?"),
    });
    expect(await run("add", "llama", "--hardware", "tpu")).toMatchObject({ code: 64 });
    expect(await run("add", "fake")).toMatchObject({
      stderr: expect.stringContaining("needs no package"),
    });
  });
});
