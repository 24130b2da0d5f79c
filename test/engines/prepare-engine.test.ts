import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { modelOptions } from "../../src/engines/model-options.ts";
import { checkEngine } from "../../src/engines/prepare-engine.ts";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { ggufBytes, modelContext, temporaryFolder } from "./models/context.ts";

async function codeOf(name: string, install: boolean, engine = "llama"): Promise<string> {
  const context = { ...(await modelContext()), workingDirectory: await temporaryFolder() };
  await writeFile(join(context.workingDirectory, "text.gguf"), "no model");
  await writeFile(join(context.workingDirectory, "real.gguf"), ggufBytes(64));
  const model = modelOptions.parse({ engine, name });
  try {
    await checkEngine(model, context, { install });
    return "fine";
  } catch (error) {
    return (error as { code: string }).code;
  }
}

describe("checkEngine", () => {
  it("refuses a model that cannot be had, and fetches none", async () => {
    expect(await codeOf("smollm2-135m-instrukt", true)).toBe("MODEL_UNKNOWN");
    expect(await codeOf("./absent.gguf", true)).toBe("MODEL_UNREADABLE");
    expect(await codeOf("text.gguf", true)).toBe("MODEL_CORRUPT");
    expect(await codeOf("real.gguf", true)).toBe("fine");
    expect(await codeOf("smollm2-135m-instruct", true)).toBe("fine");
    expect(await codeOf("hf:owner/repo/x.gguf", true)).toBe("fine");
  });

  it("wants everything here where nothing may be fetched", async () => {
    expect(await codeOf("real.gguf", false)).toBe("ENGINE_MISSING");
  });

  it("has nothing to say of other engines", async () => {
    expect(await codeOf("any", false, "fake")).toBe("fine");
  });

  it("refuses a variable for the API key that is not set", async () => {
    const own = { ...(await modelContext()), workingDirectory: await temporaryFolder() };
    const { baseUrl, close } = await startFakeServer();
    onTestFinished(close);
    const options = { engine: "openai", name: "any", apiKeyEnv: "MY_KEY", baseUrl };
    const model = modelOptions.parse(options);
    const check = (environment: Record<string, string>) =>
      checkEngine(model, { ...own, environment }, { install: true });
    await expect(check({})).rejects.toMatchObject({ code: "ENV_MISSING" });
    await expect(check({ MY_KEY: "k" })).resolves.toBeUndefined();
  });
});
