import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { inputStores } from "../../src/data/sources/open.ts";
import type { Engine } from "../../src/engines/engine.ts";
import { type InferenceRequest, noUsage } from "../../src/foundation/inference.ts";
import { fetchingFiles } from "../../src/run/fetching-engine.ts";
import { fileListener, sourceContext, webServer } from "../data/sources/web-server.ts";
import { temporaryFolder } from "../engines/models/context.ts";

const signal = new AbortController().signal;

/** An engine that reads files of this machine, and what it was asked. */
function reader(): { engine: Engine; asked: string[] } {
  const asked: string[] = [];
  const infer = async ({ file }: InferenceRequest) => {
    asked.push(file!);
    const text = await readFile(file!, "utf8");
    return {
      answers: [{ text, finishReason: "stop" as const, tokens: 0 }],
      usage: noUsage,
      seconds: 0,
    };
  };
  return { engine: { name: "reader", capacity: 3, infer, close: async () => {} }, asked };
}

async function prepared() {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "tmp"));
  const web = await webServer((request, response) => {
    if (request.url === "/no.wav") return void response.writeHead(404).end();
    if (request.url === "/secret.wav") return void response.writeHead(403).end();
    fileListener(() => Buffer.from("sound"))(request, response);
  });
  const context = { ...sourceContext(), temporaryDirectory: join(folder, "tmp") };
  const { engine, asked } = reader();
  return { folder, origin: web.origin, asked, engine: fetchingFiles(engine, inputStores(context)) };
}

const askedFor = (file: string) => ({ file }) as InferenceRequest;

describe("fetchingFiles", () => {
  it("copies a far file under its name for as long as it is asked about", async () => {
    const { folder, origin, asked, engine } = await prepared();
    const response = await engine.infer(askedFor(`${origin}/deep/a.wav?sig=1`), signal);
    expect(response.answers[0]!.text).toBe("sound");
    expect(asked[0]!.startsWith(join(folder, "tmp"))).toBe(true);
    expect(asked[0]!.endsWith("/a.wav")).toBe(true);
    expect(existsSync(asked[0]!)).toBe(false);
    expect(await readdir(join(folder, "tmp"))).toEqual([]);
  });

  it("leaves files of this machine where they are", async () => {
    const { folder, asked, engine } = await prepared();
    const file = join(folder, "a.wav");
    await writeFile(file, "here");
    expect((await engine.infer(askedFor(file), signal)).answers[0]!.text).toBe("here");
    expect(asked).toEqual([file]);
    expect(engine).toMatchObject({ name: "reader", capacity: 3 });
  });

  it.each(["no.wav", "secret.wav"])(
    "fails the row alone whose file is not had: %s",
    async (name) => {
      const { origin, asked, engine } = await prepared();
      await expect(engine.infer(askedFor(`${origin}/${name}`), signal)).rejects.toMatchObject({
        code: "FILE_UNREADABLE",
        scope: "row",
        message: expect.stringContaining(`${origin}/${name}`),
      });
      expect(asked).toEqual([]);
    },
  );
});
