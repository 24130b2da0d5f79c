import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { addEngine } from "../../src/engines/packages/packages.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { asSluiceError } from "../../src/foundation/errors.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { systemRandom } from "../../src/foundation/random.ts";

const root = resolve(import.meta.dirname, "../..");

describe("engine packages for real", () => {
  it("adds llama by npm, and it can be imported and run", async (reached) => {
    const context = {
      clock: systemClock,
      random: systemRandom,
      logger: silentLogger,
      environment: process.env,
      homeDirectory: process.env.SLUICE_HOME ?? join(root, ".cache", "sluice"),
      workingDirectory: "/",
    };
    const added = await addEngine("llama", context, { hardware: "cpu" }).catch(asSluiceError);
    if ("code" in added) {
      const isRefused = ["ENGINE_INSTALL_FAILED", "ENGINE_MISSING"].includes(added.code);
      if (isRefused) return reached.skip(`llama cannot be added here: ${added.message}`);
      throw added;
    }
    const program = `const { getLlama } = await import(process.argv[2]);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
console.log(llama.gpu === false ? "runs" : "does not");
await llama.dispose();`;
    const file = `data:text/javascript,${encodeURIComponent(program)}`;
    const url = pathToFileURL(added.located.entry).href;
    const starter = `import(${JSON.stringify(file)})`;
    const { stdout, stderr } = spawnSync(process.execPath, ["-e", starter, "x", url], {
      encoding: "utf8",
    });
    expect(stdout, stderr).toContain("runs");
  });
});
