import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openHostedLlama } from "../../../src/engines/llama/hosted-llama.ts";

// With a real model: test/integration/llama.test.ts.

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-llama-"));
});
afterAll(() => rm(folder, { recursive: true }));

describe("openHostedLlama", () => {
  it("looks at the model file before it loads native code", async () => {
    const modelPath = join(folder, "text.gguf");
    await writeFile(modelPath, "this is no model, whatever its name may say");
    const opened = openHostedLlama({ modelPath, modulePath: join(folder, "none.js") });
    await expect(opened).rejects.toMatchObject({ code: "MODEL_CORRUPT" });
  });

  it("names a package that is not there", async () => {
    const modelPath = join(folder, "head.gguf");
    const head = Buffer.alloc(64);
    head.write("GGUF");
    head.writeUInt32LE(3, 4);
    head.writeUInt32LE(1, 8);
    await writeFile(modelPath, head);
    const opened = openHostedLlama({ modelPath, modulePath: join(folder, "none.js") });
    await expect(opened).rejects.toMatchObject({ code: "ENGINE_MISSING" });
  });
});
