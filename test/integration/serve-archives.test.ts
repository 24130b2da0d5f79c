import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findTorchPython } from "./torch-python.ts";
import {
  anywhere,
  asJson,
  ask,
  bodyOf,
  done,
  internal,
  masked,
  nodeHandler,
  Place,
  probe,
  refused,
  reply,
  talkingHandler,
  talkingPredictor,
  translator,
} from "./torchserve-place.ts";

/** As `curl -d`, which calls everything a form. */
const curl = ["content-type: application/x-www-form-urlencoded"];

describe("the lines of the tutorial", () => {
  const place = new Place();

  afterAll(() => place.close());

  it("archive, start, register, predict, and choose the model by the body", async () => {
    place.write("translator.py", translator);
    place.write("setup_config.json", JSON.stringify({ cuda_id: { ko: 2 } }));
    place.write("weights.bin", "weights ".repeat(100_000));
    place.write("config.properties", `${anywhere}job_queue_size=4096\nnumber_of_gpu=4\n`);
    place.write("serve.yaml", 'routes: [{ path: /, model: "{body.tgt_lang}" }]\n');
    const files = ["--serialized-file", "weights.bin", "--extra-files", "setup_config.json"];
    await place.archive("ko", "translator.py", ...files);
    await place.archive("en", "translator.py");
    const where = ["--model-store", "store", "--ts-config", "config.properties"];
    await place.start(...where, "-c", "serve.yaml", "--models", "en=en.mar", "--ncs");
    const { inference: at = "", management: manage = "" } = place.addresses;

    const registered = "POST /models?url=ko.mar&batch_size=64&max_batch_delay=100";
    expect(masked(await ask(manage, registered))).toBe(
      done('Model "ko" Version: 1.0 registered with 1 initial workers'),
    );
    const hello = '{"src_lang":"en","src_text":"Hello"}';
    const answer = { translated: "olleH", to: "ko", rows: 1 };
    const told = bodyOf(await ask(at, "POST /predictions/ko", hello, curl));
    expect(told).toBe(JSON.stringify(answer, null, 2));

    const [ko] = JSON.parse(bodyOf(await ask(manage, "GET /models/ko")));
    expect(ko).toMatchObject({ batchSize: 64, deviceType: "gpu", deviceIds: [2] });
    expect(ko.workers[0]).toMatchObject({ gpu: true, gpuUsage: "gpuId::2" });
    expect(ko.jobQueueStatus.remainingCapacity).toBe(4096);

    const chosen = (body: string) => ask(at, "POST /", body, curl).then(bodyOf);
    expect(JSON.parse(await chosen('{"tgt_lang":"ko","src_text":"abc"}'))).toMatchObject({
      translated: "cba",
      to: "ko",
    });
    expect(JSON.parse(await chosen('{"tgt_lang":"en","src_text":"abc"}'))).toMatchObject({
      to: "en",
    });
    expect(JSON.parse(await chosen('{"tgt_lang":"xx","src_text":"abc"}'))).toEqual({
      code: 404,
      type: "ModelNotFoundException",
      message: "Model not found: xx",
    });
    expect(JSON.parse(await chosen('{"src_text":"abc"}'))).toMatchObject({ code: 400 });
  });

  it("form batches of what waits, in which a row that fails fails alone", async () => {
    const { inference: at = "" } = place.addresses;
    const texts = Array.from({ length: 40 }, (_, n) => `text ${n}`);
    const bodies = texts.map((src_text, n) => JSON.stringify(n === 7 ? { none: 1 } : { src_text }));
    const send = (body: string) => ask(at, "POST /predictions/ko", body, [asJson]);
    const [, ...replies] = await Promise.all(['{"src_text":"pause"}', ...bodies].map(send));
    const failed = replies.filter((text) => text.startsWith("HTTP/1.1 503"));
    expect(failed.map(masked)).toEqual([internal("503 Service Unavailable", "Prediction failed")]);
    const rows = replies
      .filter((text) => !failed.includes(text))
      .map((text) => {
        const { translated, rows: together } = JSON.parse(bodyOf(text));
        expect(texts).toContain([...translated].toReversed().join(""));
        return together as number;
      });
    expect(rows).toHaveLength(39);
    expect(Math.max(...rows)).toBeGreaterThan(5);
  });

  it("refuse a second start, know a stale file, and stop", async () => {
    const again = await place.sluice("serve", "--start", "--model-store", "store");
    expect(again.code).toBe(64);
    expect(again.stderr).toMatch(/SERVER_RUNNING: .*process \d+ at http/);
    const record = readFileSync(join(place.folder, ".sluice-serve.json"), "utf8");
    const { pid } = JSON.parse(record).process;
    expect(await place.sluice("serve", "--stop")).toMatchObject({
      code: 0,
      stdout: `process ${pid} has ended\n`,
    });
    await expect(ask(place.addresses.inference!, "GET /ping")).rejects.toThrow("ECONNREFUSED");
    expect(existsSync(join(place.folder, ".sluice-serve.json"))).toBe(false);
    // A file whose process was killed; the number may belong to another one by now.
    place.write(".sluice-serve.json", record.replace(`:${pid},`, `:${process.pid},`));
    const stopped = await place.sluice("serve", "--stop");
    expect(stopped.stderr).toMatch(/SERVER_NOT_RUNNING: .*has ended already/);
    place.write(".sluice-serve.json", record);
    await place.start("--model-store", "store", "--ts-config", "config.properties");
    expect(bodyOf(await ask(place.addresses.management!, "GET /models"))).toContain('"models": []');
  });

  it("say why a server does not start", async () => {
    await place.sluice("serve", "--stop");
    place.write("wrong.properties", "# one\n\njob_queue_size=many\n");
    const wrong = await place.sluice("serve", "--start", "--ts-config", "wrong.properties");
    expect(wrong.code).toBe(64);
    expect(wrong.stderr).toContain(
      'job_queue_size must be a whole number from 1 to 2147483647, not "many" (wrong.properties:3)',
    );
    const missing = ["--model-store", "store", "--models", "ko=none.mar"];
    place.write("config.properties", anywhere);
    const { code, stderr } = await place.sluice(
      ...["serve", "--start", "--ts-config", "config.properties", ...missing],
    );
    expect(code).toBe(64);
    const words =
      "SERVER_INVALID: the server's settings are not valid: Model not found at: none.mar";
    expect(stderr).toContain(words);
  });
});

describe("archives and models", () => {
  const place = new Place();
  let web: ReturnType<typeof createServer>;

  beforeAll(async () => {
    place.write("handler.ts", nodeHandler);
    place.write("probe.py", probe);
    place.write("predict.ts", "export const predict = (batch) => batch.map(({ row }) => row);\n");
    place.write("model-config.yaml", "minWorkers: 2\nbatchSize: 8\nown: { key: [1.5] }\n");
    place.write("talk.ts", talkingHandler);
    place.write("taken.ts", talkingPredictor);
    await place.archive("talk", "talk.ts");
    await place.archive("taken", "taken.ts");
    await place.archive("twice", "handler.ts", "--version", "3");
    await place.archive("seen", "probe.py", "--config-file", "model-config.yaml");
    const archive = readFileSync(join(place.folder, "store/twice.mar"));
    web = createServer((request, response) => {
      if (request.url?.startsWith("/open/")) response.end(archive);
      else response.writeHead(302, { location: "/elsewhere/x.mar" }).end();
    });
    await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
    const { port } = web.address() as AddressInfo;
    place.write(
      "serve.yaml",
      [
        "models:",
        "  m2m:",
        "    model: predictor:./predict.ts",
        "    variants: { ko: { tgt_lang: ko }, en: { tgt_lang: en, beams: 2 } }",
        "tokens:",
        // The digest of `secret`.
        "  - name: tester",
        "    sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "    scopes: [infer, manage]",
        "archives:",
        `  urls: ["http://127.0.0.1:${port}/open/", "http://127.0.0.1:${port}/moved/"]`,
        "",
      ].join("\n"),
    );
    place.write("config.properties", anywhere);
    await place.start(
      ...["--model-store", "store", "--ts-config", "config.properties", "-c", "serve.yaml"],
      ...["--models", "all"],
    );
  });

  afterAll(async () => {
    web.close();
    await place.close();
  });

  const secret = "authorization: Bearer secret";
  const send = (path: string, body: unknown) =>
    ask(place.addresses.inference!, `POST ${path}`, JSON.stringify(body), [asJson, secret]);
  const manage = (request: string) => ask(place.addresses.management!, request, "", [secret]);

  it("need a token where the server has some, except for the description", async () => {
    const key = refused(
      "400 Bad Request",
      "InvalidKeyException",
      "Token Authorization failed. Token either incorrect, expired, or not provided correctly",
    );
    const { inference: at = "", management: manages = "" } = place.addresses;
    expect(masked(await ask(at, "GET /ping"))).toBe(key);
    expect(masked(await ask(manages, "GET /models", "", ["authorization: Bearer no"]))).toBe(key);
    expect(await ask(manages, "GET /api-description")).toContain("200 OK");
  });

  it("run handlers in TypeScript, whose failing row fails alone", async () => {
    const answer = '{\n  "twice": 42,\n  "gpu_id": null,\n  "\\u00e9": "node",\n  "rows": 1\n}';
    expect(masked(await send("/predictions/twice", { n: 21 }))).toBe(reply("200 ", answer));
    expect(await send("/predictions/twice/3", { n: -1 })).toContain("Prediction failed");
  });

  it("tell handlers in TypeScript headers, and take what they say of replies", async () => {
    const at = place.addresses.inference!;
    const talk = (path: string, ...headers: string[]) =>
      ask(at, `POST ${path}`, "{}", [asJson, secret, ...headers]);
    const said = await talk("/predictions/talk", "x-say: a;b");
    expect(said).toMatch(/^HTTP\/1\.1 201 Made\r\n/);
    expect(said).toMatch(/\r\ncontent-type: text\/csv\r\nx-said: a;b\r\n/);
    expect(bodyOf(said)).toBe("a;b");
    const json = await talk("/predictions/talk", "X-SAY: json");
    expect(json).toContain(`x-request-id: ${JSON.parse(bodyOf(json)).id}\r\n`);
    const silent = await talk("/predictions/talk/1.0/some/path");
    expect(silent).toMatch(/^HTTP\/1\.1 200 /);
    expect(bodyOf(silent)).toBe("some/path");
    const taken = await talk("/explanations/taken");
    expect(taken).toMatch(/^HTTP\/1\.1 202 Taken\r\n/);
    expect(JSON.parse(bodyOf(taken))).toEqual({ row: {}, explain: "True" });
  });

  it("give a handler its context and the archive's YAML", async () => {
    const seen = JSON.parse(bodyOf(await send("/predictions/seen", { context: 1 })));
    const yaml = { minWorkers: 2, batchSize: 8, own: { key: [1.5] } };
    expect(seen).toEqual(["seen", null, 8, yaml, true, 36, "Sluice"]);
    const [described] = JSON.parse(bodyOf(await manage("GET /models/seen")));
    expect(described).toMatchObject({ minWorkers: 2, batchSize: 8, loadedAtStartup: true });
    expect(described.workers).toHaveLength(2);
    expect(new Set(described.workers.map(({ pid }: { pid: number }) => pid)).size).toBe(2);
  });

  it("let several names share a model, each with its fields", async () => {
    const row = JSON.parse(bodyOf(await send("/predictions/en", { src_text: "a", beams: 1 })));
    expect(row).toEqual({ src_text: "a", tgt_lang: "en", beams: 2 });
    expect(JSON.parse(bodyOf(await send("/predictions/ko", { src_text: "a" })))).toEqual({
      src_text: "a",
      tgt_lang: "ko",
    });
    const { models } = JSON.parse(bodyOf(await manage("GET /models")));
    const names = models.map(({ modelName }: { modelName: string }) => modelName);
    expect(names).toEqual(["en", "ko", "m2m", "seen", "taken", "talk", "twice"]);
  });

  it("come from web addresses that are allowed, and no others", async () => {
    const { port } = web.address() as AddressInfo;
    const from = (path: string) =>
      manage(`POST /models?model_name=web&url=http://127.0.0.1:${port}${path}`);
    expect(await from("/open/twice.mar")).toContain("registered with 1 initial workers");
    expect(bodyOf(await send("/predictions/web", { n: 1 }))).toContain('"twice": 2');
    expect(await from("/closed/twice.mar")).toContain("does not match any allowed URL(s)");
    const other = await from("/open/twice.mar&handler=../x.py&model_name=other");
    expect(other).toContain("handler must be a file of the archive");
    expect(await from("/moved/twice.mar")).toContain("Failed to download archive");
    expect(await manage("DELETE /models/web")).toContain("unregistered");
    expect(await send("/predictions/web", { n: 1 })).toContain("Model not found: web");
  });
});

describe("TorchScript in an archive", () => {
  const place = new Place();
  const found = findTorchPython();

  afterAll(() => place.close());

  it("is loaded and asked by BaseHandler", async (context) => {
    context.skip(found.missing !== undefined, found.missing);
    const { python } = found as { python: string };
    place.write(
      "make.py",
      [
        "import torch",
        "class Twice(torch.nn.Module):",
        "    def forward(self, x):",
        "        return x * 2",
        "torch.jit.trace(Twice(), torch.ones(1)).save('twice.pt')",
        "",
      ].join("\n"),
    );
    place.write(
      "twice.py",
      [
        "from ts.torch_handler.base_handler import BaseHandler",
        "class Twice(BaseHandler):",
        "    def preprocess(self, data):",
        "        return super().preprocess([row['body']['x'] for row in data])",
        "",
      ].join("\n"),
    );
    execFileSync(python, ["make.py"], { cwd: place.folder });
    await place.archive("twice", "twice.py", "--serialized-file", "twice.pt");
    place.write("serve.yaml", `archives: { python: ${JSON.stringify(python)} }\n`);
    place.write("config.properties", anywhere);
    await place.start(
      ...["-c", "serve.yaml", "--ts-config", "config.properties"],
      ...["--model-store", "store", "--models", "twice=twice.mar"],
    );
    const { inference: at = "" } = place.addresses;
    const answer = await ask(at, "POST /predictions/twice", '{"x":1.5}', [asJson]);
    expect(bodyOf(answer)).toBe("3.0");
  });
});
