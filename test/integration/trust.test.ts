import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { type FakeServer, startFakeServer } from "../../src/testing/fake-server.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { webServer } from "../data/sources/web-server.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-trust-"));
let server: FakeServer;
/** What the server was sent. */
let sent = "";
beforeAll(async () => {
  server = await startFakeServer({
    behave: ({ body }) => {
      sent += body;
      return undefined;
    },
  });
});
afterAll(async () => {
  await server.close();
  rmSync(root, { recursive: true, force: true });
});
let folders = 0;

/** A folder of its own for a test, with these files. */
function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = join(root, `case-${folders++}`);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  sent = "";
  return folder;
}

const jsonLines = (values: readonly JsonObject[]) =>
  values.map((value) => `${JSON.stringify(value)}\n`).join("");
const base64 = (text: string) => Buffer.from(text).toString("base64");

/** A job that shows the images which its rows name. */
const seeing = (more: JsonObject = {}): string =>
  JSON.stringify({
    input: "in/rows.jsonl",
    model: { engine: "openai", name: "m", baseUrl: server.baseUrl },
    prompt: { prompt: "What is it?", image: "{{ path }}" },
    output: "out",
    workers: { max: 1 },
    ...more,
  });

describe("files that rows name", () => {
  it("lie below the input's folder or in allow.folders; links do not lead out", async () => {
    const secret = "the secret of another folder";
    const folder = folderWith({
      "in/a.png": "a lake",
      "secrets/key.png": secret,
      "pictures/b.png": "some hills",
    });
    symlinkSync(join(folder, "secrets"), join(folder, "in/link"));
    const outside = [`${folder}/secrets/key.png`, "../secrets/key.png", "link/key.png"];
    const named = ["a.png", ...outside, `${folder}/pictures/b.png`];
    writeFileSync(join(folder, "in/rows.jsonl"), jsonLines(named.map((path) => ({ path }))));
    writeFileSync(join(folder, "job.json"), seeing());
    const planned = await callHere(["plan", "job.json", "--json"], folder);
    expect(planned.stdout).toContain("FILE_REFUSED");
    const ran = await runSluice(["run", "job.json", "--json"], folder);
    expect(ran.code, ran.stderr).toBe(1);
    expect(sent).toContain(base64("a lake"));
    expect(sent).not.toContain(base64(secret));
    const failed = await runSluice(["results", "out", "--failed"], folder);
    expect(failed.stdout.match(/FILE_REFUSED/g)).toHaveLength(4);
    expect(failed.stdout).toContain("allow.folders");
    // What the job allows is read by the same run, once it is asked again.
    const allow = `allow.folders=${folder}/pictures`;
    const allowed = await runSluice(["retry", "out", "--set", allow], folder);
    expect(sent, allowed.stderr).toContain(base64("some hills"));
    expect(sent).not.toContain(base64(secret));
  });

  it("are asked of public servers, of private ones if allowed, never of a cloud", async () => {
    const metadata = "169.254.169.254";
    const web = await webServer((request, response) => {
      if (request.url === "/moved.png") {
        return void response.writeHead(302, { location: `http://${metadata}/a.png` }).end();
      }
      response.end("from inside");
    });
    const folder = folderWith({
      "in/rows.jsonl": jsonLines([
        { path: `${web.origin}/a.png` },
        { path: `${web.origin}/moved.png` },
        { path: `http://${metadata}/latest.png` },
        { path: `${web.origin.replace("127.0.0.1", "localhost")}/a.png` },
      ]),
      "job.json": seeing(),
    });
    expect((await runSluice(["run", "job.json"], folder)).code).toBe(1);
    expect(web.requests).toEqual([]);
    const failed = await runSluice(["results", "out", "--failed"], folder);
    expect(failed.stdout.match(/FILE_REFUSED/g)).toHaveLength(4);
    expect(failed.stdout).toContain("allow.privateNetworks");
    const allow = ["--allow.privateNetworks", "--overwrite"];
    expect((await runSluice(["run", "job.json", ...allow], folder)).code).toBe(1);
    expect(sent).toContain(base64("from inside"));
    const still = await runSluice(["results", "out", "--failed"], folder);
    expect(still.stdout.match(/FILE_REFUSED/g)).toHaveLength(2);
    expect(still.stdout).toContain(metadata);
  });
});

/** All that stands below a folder, as one text. */
function allText(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"))
    .join("\n");
}

describe("secrets", () => {
  it("of env reach the workers, and no file of the run but by their names", async () => {
    const program = `
      import { createInterface } from "node:readline";
      const say = (line) => process.stdout.write(JSON.stringify(line) + "\\n");
      const { DB_PASSWORD, DATABASE, MODE } = process.env;
      say({ ready: 1 });
      createInterface({ input: process.stdin }).on("line", (line) => {
        const { batch, items } = JSON.parse(line);
        const message = "no " + DATABASE + " for https://h/x?anything=Zm9vYmFy123 " + DB_PASSWORD;
        const answer = { text: [DB_PASSWORD.length, DATABASE.length, MODE].join(" ") };
        const refused = { error: { message } };
        const results = items.map(({ row }) => (row.text === "bad" ? refused : answer));
        say({ batch, results });
      });`;
    const folder = folderWith({
      "program.mjs": program,
      "rows.jsonl": jsonLines([{ text: "good" }, { text: "bad" }]),
    });
    const [password, database] = ["pw-of-my-database", "postgres://me:s3cretpw@db/x"];
    const job = {
      input: "rows.jsonl",
      model: { engine: "command", command: process.execPath, args: ["program.mjs"] },
      env: { DB_PASSWORD: password, DATABASE: "$" + "{THE_DATABASE}", MODE: "plain" },
      output: "out",
      workers: { max: 1 },
    };
    writeFileSync(join(folder, "job.json"), JSON.stringify(job));
    const environment = { THE_DATABASE: database };
    const ran = await runSluice(["run", "job.json", "--json"], folder, environment);
    expect(ran.code, ran.stderr).toBe(1);
    const answer = `${password.length} ${database.length} plain`;
    const written = allText(join(folder, "out"));
    expect(written).toContain(answer);
    expect(written).toContain("[redacted]");
    const failed = await runSluice(["results", "out", "--failed"], folder);
    for (const text of [written, ran.stdout, ran.stderr, failed.stdout]) {
      for (const secret of [password, "s3cretpw", "Zm9vYmFy123"])
        expect(text).not.toContain(secret);
    }
    expect(written).toContain('"DB_PASSWORD":"$' + '{DB_PASSWORD}"');
    expect(written).toContain('"DATABASE":"$' + '{THE_DATABASE}"');
    expect(written).toContain('"MODE":"plain"');
    // What is kept by its name is the caller's to give from then on.
    const without = await callHere(["retry", "out"], folder, environment);
    expect(without.code).toBe(64);
    expect(without.stderr).toContain("ENV_MISSING");
    expect(without.stderr).toContain("DB_PASSWORD");
    const given = { ...environment, DB_PASSWORD: password };
    const retried = await runSluice(["retry", "out"], folder, given);
    expect(retried.stderr).not.toContain("ENV_MISSING");
  });
});

describe("jobs of strangers", () => {
  const job = (more: JsonObject) =>
    JSON.stringify({
      ...{ input: "rows.jsonl", model: { engine: "fake" }, prompt: "Say {{ text }}" },
      ...{ output: "out", ...more },
    });
  const module = "export const predict = (batch) => batch.map(({ row }) => row.text);";

  it("say what they do, a line each, in the plan and in the first run", async () => {
    const folder = folderWith({
      "rows.jsonl": jsonLines([{ text: "a" }, { text: "b" }]),
      "predict.mjs": module,
    });
    const model = { engine: "predictor", module: "./predict.mjs" };
    writeFileSync(
      join(folder, "job.json"),
      job({ model, env: { A: "1" } }).replace(`"prompt":"Say {{ text }}",`, ""),
    );
    const lines = [`this job executes ${folder}/predict.mjs`, "variables of its workers: A"];
    const plan = await callHere(["plan", "job.json"], folder);
    const first = await runSluice(["run", "job.json"], folder);
    expect(first.code, first.stderr).toBe(0);
    for (const line of lines) {
      expect(plan.stdout + plan.stderr).toContain(line);
      expect(first.stderr).toContain(line);
    }
    const again = await runSluice(["run", "job.json"], folder);
    expect(again.stderr).not.toContain("this job executes");
  });

  it("run under --untrusted without programs, and with what the caller names alone", async () => {
    const folder = folderWith({
      "rows.jsonl": jsonLines([{ text: "a" }]),
      "elsewhere/secret.jsonl": jsonLines([{ text: "the secret" }]),
      "predict.mjs": module,
    });
    const named = ["--untrusted", "--allow.folders", "out", "--input", "rows.jsonl"];
    const refused = async (more: JsonObject, ...flags: string[]) => {
      writeFileSync(join(folder, "job.json"), job(more));
      const words = ["run", "job.json", ...named, ...flags];
      return await callHere(words, folder, { MY_SECRET: "s3cret" });
    };
    const predictor = { model: { engine: "predictor", module: "./predict.mjs" } };
    expect((await refused(predictor)).stderr).toContain("executes nothing");
    const reference = { prompt: "Send $" + "{MY_SECRET}" };
    const asked = await refused(reference);
    expect(asked.code).toBe(64);
    expect(asked.stderr).toContain("is not filled in");
    expect(asked.stderr).not.toContain("s3cret");
    expect((await refused({ output: "elsewhere/out" })).stderr).toContain("--allow.folders");
    const local = { model: { engine: "openai", name: "m", baseUrl: server.baseUrl } };
    expect((await refused(local)).stderr).toContain("private network");
    expect((await refused({ allow: { folders: "/" } })).stderr).toContain("is for you to say");
    // A list of the caller's that leads elsewhere.
    writeFileSync(join(folder, "list.txt"), "elsewhere/secret.jsonl\n");
    const listed = await refused({}, "--input-list", "list.txt");
    expect(listed.stderr).toContain("FILE_REFUSED");
    writeFileSync(join(folder, "job.json"), job({}));
    const taken = await runSluice(["run", "job.json", ...named], folder);
    expect(taken.code, taken.stderr).toBe(0);
    expect(allText(join(folder, "out"))).not.toContain("the secret");
  });

  it("get no key of another provider unless it is written", async () => {
    const folder = folderWith({ "rows.jsonl": jsonLines([{ text: "a" }]) });
    const got: unknown[] = [];
    const keyed = await startFakeServer({
      behave: ({ headers }) => {
        got.push(headers.authorization);
        return undefined;
      },
    });
    try {
      const run = async (model: JsonObject, output: string) => {
        const server = { engine: "openai", name: "m", baseUrl: keyed.baseUrl, ...model };
        writeFileSync(join(folder, "job.json"), job({ model: server, output }));
        const environment = { OPENAI_API_KEY: "sk-mine-alone", AWS_SECRET_ACCESS_KEY: "aws-mine" };
        return runSluice(["run", "job.json"], folder, environment);
      };
      const unasked = await run({}, "out-1");
      expect(unasked.code, unasked.stderr).toBe(0);
      expect(new Set(got)).toEqual(new Set([undefined]));
      const aws = await run({ apiKeyEnv: "AWS_SECRET_ACCESS_KEY" }, "out-2");
      expect(aws.code).toBe(64);
      expect(aws.stderr).toContain("model.apiKeyEnv");
      got.length = 0;
      const written = await run({ apiKeyEnv: "OPENAI_API_KEY" }, "out-3");
      expect(written.stderr).toContain("this job sends secrets: OPENAI_API_KEY to 127.0.0.1");
      expect(got).toContain("Bearer sk-mine-alone");
      expect(got).not.toContain("Bearer aws-mine");
    } finally {
      await keyed.close();
    }
  });
});

describe("results of runs", () => {
  it("are no input of the run itself nor of a later one, below a glob", async () => {
    const folder = folderWith({ "{a,b}/one.jsonl": jsonLines([{ text: "first" }]) });
    const here = join(folder, "{a,b}");
    const run = (output: string, input: string) => {
      const job = ["--model", "fake", "--prompt", "Say {{ text }}", "--output", output];
      return runSluice(["run", "--input", input, ...job, "--json"], here);
    };
    const total = ({ stdout }: { stdout: string }) =>
      JSON.parse(stdout.trimEnd().split("\n").at(-1)!).rows.total;
    const first = await run("results.jsonl", "*.jsonl");
    expect([first.code, total(first)], first.stderr).toEqual([0, 1]);
    // The output lies in its own glob now, and the run is resumed all the same.
    const resumed = await run("results.jsonl", "*.jsonl");
    expect([resumed.code, total(resumed)], resumed.stderr).toEqual([0, 1]);
    const later = await run("out", "**/*.jsonl");
    expect([later.code, total(later)], later.stderr).toEqual([0, 1]);
    expect(later.stderr).toContain("left out of the input: runs made them");
    const again = await run("out", "**/*.jsonl");
    expect([again.code, total(again)], again.stderr).toEqual([0, 1]);
    const named = await run("other", "results.jsonl");
    expect([named.code, total(named)], named.stderr).toEqual([0, 1]);
    const patterned = await run("by/{stem}.x.jsonl", "*.jsonl");
    expect([patterned.code, total(patterned)], patterned.stderr).toEqual([0, 1]);
    expect(readFileSync(join(here, "by/one.x.jsonl"), "utf8")).toContain("first");
    expect((await runSluice(["verify", "by/{stem}.x.jsonl"], here)).code).toBe(0);
  });
});

describe("lists of files", () => {
  it("that are far name no files here, and results go below the output", async () => {
    let list = "";
    const web = await webServer((request, response) => {
      const text = request.url === "/list.txt" ? list : '{"text":"far"}\n';
      response.writeHead(200, { "content-length": text.length }).end(text);
    });
    const folder = folderWith({ "here.jsonl": '{"text":"here"}\n' });
    const run = (place = `${web.origin}/list.txt`, output = "out") => {
      const job = ["--model", "fake", "--prompt", "{{ text }}", "--output", output];
      return runSluice(["run", "--input-list", place, ...job], folder);
    };
    list = `rows.jsonl\n${folder}/here.jsonl\n`;
    const local = await run();
    expect(local.code).toBe(65);
    expect(local.stderr).toContain(`${web.origin}/list.txt:2`);
    expect(local.stderr).toContain("input.prefixes");
    list = `rows.jsonl;${folder}/elsewhere/rows.jsonl\n`;
    const elsewhere = await run();
    expect(elsewhere.code).toBe(64);
    expect(elsewhere.stderr).toContain("allow.folders");
    list = `rows.jsonl;${folder}/out/deep/rows.jsonl\n`;
    const below = await run();
    expect(below.code, below.stderr).toBe(0);
    expect(readFileSync(join(folder, "out/deep/rows.jsonl"), "utf8")).toContain("far");
    writeFileSync(join(folder, "list.txt"), `${web.origin}/rows.jsonl\n`);
    const inside = await run("list.txt", "out-2");
    expect(inside.stderr).toContain("allow.privateNetworks: true");
  });
});
