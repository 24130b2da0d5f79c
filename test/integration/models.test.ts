import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { pullModel, verifyModel } from "../../src/engines/models/models.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { asSluiceError } from "../../src/foundation/errors.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { systemRandom } from "../../src/foundation/random.ts";
import { ggufBytes, temporaryFolder } from "../engines/models/context.ts";
import { sendFile, serve } from "../engines/models/serve.ts";
import { sluiceProgram } from "../sluice-program.ts";

const root = resolve(import.meta.dirname, "../..");

describe("models for real", () => {
  it("has the embedded model, from whichever mirror is reached", async (reached) => {
    const context = {
      clock: systemClock,
      random: systemRandom,
      logger: silentLogger,
      environment: process.env,
      homeDirectory: process.env.SLUICE_HOME ?? join(root, ".cache", "sluice"),
    };
    const name = "smollm2-135m-instruct";
    const pulled = await pullModel(name, context).catch(asSluiceError);
    if ("code" in pulled && pulled.code === "MODEL_DOWNLOAD_FAILED") {
      return reached.skip(`no mirror is reached: ${pulled.message}`);
    }
    expect(pulled).toMatchObject({ model: { name, bytes: 98_362_432 } });
    expect(await verifyModel(name, context)).toMatchObject({ isIntact: true });
  });

  it("goes on after a pull that was killed, without waiting for its lock", async () => {
    const file = ggufBytes(400_000);
    const home = await temporaryFolder();
    const pull = (origin: string) => {
      const args = [sluiceProgram, "model", "pull", "hf:o/r/a.gguf"];
      const env = { ...process.env, SLUICE_HOME: home, HF_ENDPOINT: origin };
      return spawn(process.execPath, args, { env, stdio: ["ignore", "inherit", "pipe"] });
    };
    let child: ReturnType<typeof pull> | undefined;
    const slow = await serve((request, response) => {
      const held = () => void setTimeout(() => child?.kill("SIGKILL"), 300);
      sendFile(file, { hold: { bytes: 200_000, held } })(request, response);
    });
    child = pull(slow.origin);
    child.stderr.resume();
    expect(await once(child, "close")).toEqual([null, "SIGKILL"]);
    const server = await serve(sendFile(file));
    const again = pull(server.origin);
    const [said, end] = await Promise.all([text(again.stderr), once(again, "close")]);
    expect(end, said).toEqual([0, null]);
    expect(said).not.toContain("waiting");
  });
});
