import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { inputStores } from "../../../src/data/sources/open.ts";
import type { Engine } from "../../../src/engines/engine.ts";
import { type InferenceRequest, noUsage } from "../../../src/foundation/inference.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { fetchingFiles } from "../../../src/run/execute/fetching-engine.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";
import { fileListener, sourceContext, webServer } from "../../data/sources/web-server.ts";
import { temporaryFolder } from "../../engines/models/context.ts";

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

async function prepared(allow: JobInput["allow"] = { privateNetworks: true }) {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "tmp"));
  const web = await webServer((request, response) => {
    if (request.url === "/no.wav") return void response.writeHead(404).end();
    if (request.url === "/moved.wav") {
      return void response.writeHead(302, { location: "http://169.254.169.254/a.wav" }).end();
    }
    if (request.url === "/secret.wav") return void response.writeHead(403).end();
    fileListener(() => Buffer.from("sound"))(request, response);
  });
  const context = { ...sourceContext(), temporaryDirectory: join(folder, "tmp") };
  const { engine, asked } = reader();
  const job = jobSchema.parse({ input: "/in/*", model: { engine: "fake" }, prompt: "x", allow });
  return {
    folder,
    web,
    origin: web.origin,
    asked,
    engine: fetchingFiles(engine, inputStores(context), job),
  };
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

  it.each(["localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "2130706433", "a.localhost"])(
    "asks no server of a private network that rows name: %s",
    async (host) => {
      const { origin, asked, engine } = await prepared({});
      const file = `http://${host}:${new URL(origin).port}/a.wav`;
      await expect(engine.infer(askedFor(file), signal)).rejects.toMatchObject({
        code: "FILE_REFUSED",
        message: expect.stringContaining("lies in a private network"),
        hint: expect.stringContaining("allow.privateNetworks: true"),
      });
      expect(asked).toEqual([]);
    },
  );

  it.each([
    "http://169.254.169.254/latest",
    "http://[fe80::1]/x",
    "http://metadata.google.internal/",
  ])("never asks metadata services: %s", async (file) => {
    const { engine } = await prepared();
    await expect(engine.infer(askedFor(file), signal)).rejects.toMatchObject({
      code: "FILE_REFUSED",
      scope: "row",
    });
  });

  it("looks at redirects again", async () => {
    const { origin, engine } = await prepared();
    await expect(engine.infer(askedFor(`${origin}/moved.wav`), signal)).rejects.toMatchObject({
      code: "FILE_REFUSED",
      message: expect.stringContaining("169.254.169.254"),
    });
  });

  it("asks the servers that the job itself names", async () => {
    const { origin } = await prepared();
    const { engine } = await prepared({ folders: `${origin}/` });
    const response = await engine.infer(askedFor(`${origin}/a.wav`), signal);
    expect(response.answers[0]!.text).toBe("sound");
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

describe("an address that is dead or no address", () => {
  it.each([
    "https://[no/a.wav",
    "https://:99999/a.wav",
    "http:///",
    "ftp://host/a.wav",
    "s3://",
    "s3:///a.wav",
    "r2://bucket/a.wav",
    "hf://",
    "hf://datasets/o/n@%zz/a.wav",
    "http://127.0.0.1:1/a.wav",
  ])("fails its row alone: %s", async (file) => {
    const { asked, engine } = await prepared();
    await expect(engine.infer(askedFor(file), signal)).rejects.toMatchObject({
      code: "FILE_UNREADABLE",
      scope: "row",
      message: expect.stringContaining(file),
    });
    expect(asked).toEqual([]);
  });

  it.each([
    ["has no end", `${"a".repeat(5000)}.wav`],
    ["is no name", ".."],
    ["has a NUL", "a\0b.wav"],
  ])("gives a copy a name of its own where that of the file %s", async (_, name) => {
    const { folder, origin, asked, engine } = await prepared();
    await engine.infer(askedFor(`${origin}/${name}`), signal);
    expect(asked).toHaveLength(1);
    expect(asked[0]!.startsWith(`${join(folder, "tmp")}/sluice-file-`)).toBe(true);
  });

  const deadAt = (at: number) => askedFor(`http://127.0.0.1:1/${at}.wav`);
  const codesOf = async (engine: Engine, requests: readonly InferenceRequest[]) => {
    const codes: string[] = [];
    for (const request of requests) {
      await engine.infer(request, signal).then(
        () => codes.push("ok"),
        ({ code }) => codes.push(code),
      );
    }
    return codes;
  };
  const rowsOf = (count: number) => Array.from({ length: count }, (_, at) => at);
  const most = limits.maxUnreachedFiles;

  it("ends the run where none of many different files is given", async () => {
    const { engine } = await prepared();
    const codes = await codesOf(engine, rowsOf(most).map(deadAt));
    expect(codes.slice(0, -1)).toEqual(rowsOf(most - 1).map(() => "FILE_UNREADABLE"));
    expect(codes.at(-1)).toBe("INPUT_UNREACHABLE");
  });

  it("never ends it by one file, nor where other servers answer", async () => {
    const { engine, origin } = await prepared();
    const one = await codesOf(
      engine,
      rowsOf(most + 3).map(() => deadAt(0)),
    );
    expect(new Set(one)).toEqual(new Set(["FILE_UNREADABLE"]));
    await engine.infer(askedFor(`${origin}/a.wav`), signal);
    const dead = await codesOf(engine, rowsOf(most + 3).map(deadAt));
    expect(new Set(dead)).toEqual(new Set(["FILE_UNREADABLE"]));
  });

  it("ends the run where a server answered and does so no longer", async () => {
    const { engine, web } = await prepared();
    const requests = rowsOf(most).map((at) => askedFor(`${web.origin}/${at}.wav`));
    expect(await codesOf(engine, requests.slice(0, 2))).toEqual(["ok", "ok"]);
    await web.close();
    const codes = await codesOf(engine, requests);
    expect(codes.indexOf("INPUT_UNREACHABLE")).toBe(most - 1);
  });

  it("ends the run at once where this machine takes no copies", async () => {
    const { folder, engine, origin } = await prepared();
    await rm(join(folder, "tmp"), { recursive: true });
    await expect(engine.infer(askedFor(`${origin}/a.wav`), signal)).rejects.toMatchObject({
      scope: "run",
      message: expect.stringContaining(join(folder, "tmp")),
    });
  });
});
