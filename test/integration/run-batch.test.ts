import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { type ReceivedRequest, startFakeServer } from "../../src/testing/fake-server.ts";
import { askedRows, journaledRows } from "../chaos/run-files.ts";
import { pause, runningIn, runSluice, startSluice, stillRunning } from "../chaos/sluice-process.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-batch-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

const lines = 400;

/** Chats, completions, and every tenth line broken in one of four ways. */
function lineAt(at: number): string {
  const line: JsonObject = {
    custom_id: `line-${at}`,
    method: "POST",
    url: at % 3 === 0 ? "/v1/completions" : "/v1/chat/completions",
    body:
      at % 3 === 0
        ? { model: "m", prompt: `Text ${at}`, max_tokens: 4 }
        : { model: "m", messages: [{ role: "user", content: `Question ${at}` }], top_p: 0.9 },
  };
  if (at % 10 !== 9) return JSON.stringify(line);
  const kind = Math.floor(at / 10) % 4;
  if (kind === 0) return JSON.stringify(line).slice(0, 40);
  if (kind === 1) return JSON.stringify({ ...line, url: "/v1/moderations" });
  if (kind === 2) return JSON.stringify({ ...line, body: { model: "another", prompt: "x" } });
  return JSON.stringify({ ...line, body: { ...(line.body as JsonObject), stream: true } });
}

function folderWithBatch(): string {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(folder);
  const text = Array.from({ length: lines }, (_, at) => `${lineAt(at)}\n`).join("");
  writeFileSync(join(folder, "in.jsonl"), text);
  return folder;
}

interface Line {
  custom_id: string | null;
  response: { status_code: number; body: JsonObject };
  error: { code: string; message: string } | null;
}

function linesOf(folder: string, name: string): Line[] {
  const text = readFileSync(join(folder, name), "utf8").split("\n").slice(0, -1);
  return text.map((line) => JSON.parse(line) as Line);
}

/** What stands for each line, by place; a broken line of JSON has no id. */
function expectComplete(found: readonly Line[]) {
  expect(found).toHaveLength(lines);
  for (const [at, { custom_id: id, error, response }] of found.entries()) {
    const isUnreadable = at % 40 === 9;
    expect(id).toBe(isUnreadable ? null : `line-${at}`);
    expect(error !== null).toBe(at % 10 === 9);
    if (error !== null) continue;
    const object = at % 3 === 0 ? "text_completion" : "chat.completion";
    expect([response.status_code, response.body.object]).toEqual([200, object]);
  }
}

describe("sluice run-batch with real processes", () => {
  it("keeps order and completeness over kills of everything", async () => {
    const folder = folderWithBatch();
    const model = ["--model", "fake:m", "--model.capacity", "4"];
    const countFile = join(folder, "asked");
    const count = ["--model.countFile", countFile];
    const files = ["-i", "in.jsonl", "-o", "out.jsonl", "--shard.rows", "50", "--json"];
    const args = ["run-batch", ...files, ...model, ...count, "--workers.max", "2"];
    const asked = () => askedRows(countFile);
    let lost = 0;
    for (const enough of [24, 60]) {
      // Seven seconds of work from here on: it is not over before it is killed.
      const run = startSluice([...args, "--model.latencyMs", "200"], folder);
      while (asked().length < enough && !run.hasEnded()) await pause(20);
      expect(run.hasEnded()).toBe(false);
      run.killGroup("SIGKILL");
      await run.ended;
      expect(await stillRunning(runningIn(folder))).toEqual([]);
      // Nobody is left who could write: these asks are gone, at the engine or with an answer that
      // was not on file yet, and all others are not.
      lost = asked().length - journaledRows(join(folder, "out.jsonl.sluice")).size;
    }
    const last = await runSluice(args, folder);
    expect(last.code, last.stderr).toBe(1);
    expectComplete(linesOf(folder, "out.jsonl"));
    const { rows } = JSON.parse(last.stdout);
    expect(rows).toMatchObject({ total: lines, answered: 360, failed: 40 });
    expect(rows.resumed).toBeGreaterThan(30);
    expect(lost).toBeGreaterThan(0);
    expect(asked()).toHaveLength(360 + lost);
    const { code, stdout } = await runSluice(["verify", "out.jsonl"], folder);
    expect(code, stdout).toBe(0);
  });

  it("asks a server what each line asks, and splits off errors and mends them", async () => {
    const folder = folderWithBatch();
    let isRefusing = true;
    const bodies: JsonObject[] = [];
    const said = { message: "not this\none", type: "policy", param: "messages", code: "blocked" };
    const refuses = ({ json }: ReceivedRequest) => /(Question|Text) 1\d\d\b/.test(textIn(json));
    const server = await startFakeServer({
      behave: (request) => {
        bodies.push(request.json ?? {});
        if (!isRefusing || !refuses(request)) return undefined;
        return { kind: "status", status: 422, body: { error: said } };
      },
    });
    try {
      const files = ["-i", "in.jsonl", "-o", "out.jsonl", "--error-file", "errors.jsonl"];
      const model = ["--model", "openai:m", "--base-url", server.baseUrl];
      const first = await runSluice(["run-batch", ...files, ...model, "--quiet"], folder);
      expect(first.code, first.stderr).toBe(1);
      const [fine, failed] = [linesOf(folder, "out.jsonl"), linesOf(folder, "errors.jsonl")];
      expect([fine.length, failed.length]).toEqual([270, 130]);
      expect(fine.every(({ error }) => error === null)).toBe(true);
      const refusal = failed.find((line) => line.custom_id === "line-100")!;
      expect(refusal.response).toMatchObject({ status_code: 422, body: { error: said } });
      expect(refusal.error).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("status 422: not this one (blocked)"),
      });
      const letters = await runSluice(["results", "out.jsonl", "--failed"], folder);
      const [letter] = letters.stdout.split("\n").filter((line) => line.includes('"line-100"'));
      expect(JSON.parse(letter!).server).toEqual({ status: 422, ...said });
      const streaming = failed.find((line) => line.custom_id === "line-39")!;
      expect(streaming.response).toMatchObject({
        status_code: 400,
        body: { error: { param: "stream", code: "unsupported_parameter" } },
      });
      expect(bodies.filter(({ prompt }) => prompt !== undefined)[0]).toMatchObject({
        max_tokens: 4,
      });
      expect(bodies.filter(({ messages }) => messages !== undefined)[0]).toMatchObject({
        model: "m",
        top_p: 0.9,
      });

      isRefusing = false;
      const again = await runSluice(["retry", "out.jsonl", "--quiet"], folder);
      expect(again.code, again.stderr).toBe(1);
      expect(linesOf(folder, "out.jsonl")).toHaveLength(360);
      expect(linesOf(folder, "errors.jsonl")).toHaveLength(40);
      const { code, stdout } = await runSluice(["verify", "out.jsonl"], folder);
      expect(code, stdout).toBe(0);
    } finally {
      await server.close();
    }
  });
});

function textIn(json: JsonObject | undefined): string {
  return JSON.stringify(json?.prompt ?? json?.messages ?? "");
}
