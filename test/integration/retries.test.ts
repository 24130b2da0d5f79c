import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { expectRows, person } from "./person.ts";

const job = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];

describe("after a run", () => {
  it("rows are mended and appended", async () => {
    const me = person();
    me.write(
      "rows.jsonl",
      '{"id":1,"text":"one"}\n{"id":2,"text":"two"\n{"id":3,"text":"three"}\n',
    );
    const run = [...job, "--output", "out", "--set", "input.id=id"];
    expect((await me.call("run", ...run)).code).toBe(1);

    const text = me.read("rows.jsonl").replace('"two"', '"two, mended"}');
    me.write("rows.jsonl", text);
    const plainRetry = await me.call("retry", "out");
    expect(plainRetry.stderr).toContain("INPUT_CHANGED");
    const [, advised] = /(sluice retry \S+ --reread)/.exec(plainRetry.stderr)!;
    const mended = await me.call(...advised!.split(" ").slice(1));
    expect(mended.summary).toMatchObject({
      status: "SUCCESS",
      request_count: 3,
      response_count: 3,
    });
    await expectRows(me, { total: 3, answered: 3, failed: 0 });

    appendFileSync(join(me.folder, "rows.jsonl"), '{"id":4,"text":"four"}\n{"id":1}\n');
    const told = await me.call("run", ...run);
    expect(told.stderr).toContain("add --extend");
    const extended = await me.call("run", ...run, "--extend");
    expect(extended.summary).toMatchObject({ status: "FAILED", rows: { total: 5, answered: 4 } });
    await expectRows(me, { total: 5, answered: 4, failed: 1 });
    const lines = (await me.plain("results", "out")).stdout.trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).id)).toEqual([1, 2, 3, 4]);
    expect(lines[1]).toContain('"text":"two, mended"');

    // The same command does nothing now.
    const again = await me.call("run", ...run, "--extend");
    expect(again.summary.rows).toMatchObject({ total: 5, answered: 4, failed: 1 });

    me.write("mended.jsonl", '{"id":1,"text":"five"}\n');
    const own = await me.call("retry", "out", "--reread", "mended.jsonl");
    expect(own.summary).toMatchObject({ status: "SUCCESS", rows: { answered: 5 } });
    await expectRows(me, { total: 5, answered: 5, failed: 0 });
    expect((await me.plain("clean", "out")).code).toBe(0);
    await expectRows(me, { total: 5, answered: 5, failed: 0 });
  });

  it("a retry cannot change which rows there are; one that came to nothing makes way, one that is abandoned is dropped", async () => {
    const me = person();
    const texts = '{"text":"one"}\n{"text":"two"}\n';
    // So many that a slow retry of them is not over before its budget has stopped it.
    const failed = 100;
    const textless = Array.from({ length: failed }, (_, row) => `{"id":${row}}\n`);
    me.write("rows.jsonl", texts + textless.join(""));
    const { summary } = await me.call("run", ...job, "--output", "out");
    const keys = ["input.path=else.jsonl", "limit=1", "sample=1", "shard.rows=1", "output.field=b"];
    for (const key of keys) {
      const { code, stderr } = await me.look("retry", "out", "--set", key);
      expect([code, stderr], key).toEqual([64, expect.stringContaining("a retry cannot change")]);
      expect(stderr).toContain(key.split(".")[0]!.split("=")[0]);
    }
    // A server that refuses the key: the retry answers nothing, and makes way for the next one.
    const server = await startFakeServer({ behave: () => ({ kind: "status", status: 401 }) });
    onTestFinished(() => server.close());
    const elsewhere = `model={engine: openai, name: m, baseUrl: '${server.baseUrl}'}`;
    const nothing = ["--set", "prompt=Ask {{ id }}", "--set", elsewhere];
    expect((await me.call("retry", "out", ...nothing)).code).toBe(69);
    expect((await me.plain("verify", "out")).stdout).toContain("102 rows");
    const slow = ["--set", "model={engine: fake, capacity: 1, latencyMs: 100, countFile: asked}"];
    const spent = summary.prompt_tokens + summary.total_tokens_generated;
    const budget = ["--set", `budget.tokens=${spent + 1}`];
    const changes = ["--set", "prompt=Say {{ id }}", ...slow, ...budget];
    const stopped = await me.call("retry", "out", ...changes);
    expect(stopped).toMatchObject({ code: 75, summary: { sealed: false } });
    const other = await me.look("retry", "out", "--set", "prompt=Shout {{ id }}");
    expect([other.code, other.stderr]).toEqual([64, expect.stringContaining("--abandon")]);
    const { stdout } = await me.plain("status", "out");
    expect(stdout).toContain(`a retry of ${failed} rows is begun`);
    const [, advised] = /(sluice retry \S+ --abandon)/.exec(stdout)!;
    const dropped = await me.plain(...advised!.split(" ").slice(1));
    const answers = me.read("asked").split("\n").length - 1;
    expect(dropped.stdout).toContain(`the retry is dropped, with its ${answers} answers`);
    const none = await me.plain("retry", "out", "--abandon");
    expect(none.stdout).toContain("nothing to drop");
    await expectRows(me, { total: 102, answered: 2, failed });
  });

  it("a retry takes its job from the corrected job file, but not other rows", async () => {
    const me = person();
    me.write("rows.jsonl", '{"text":"one"}\n{"words":"two"}\n{"words":"three"}\n');
    const file = (prompt: string, limit: string) =>
      me.write(
        "job.yaml",
        `input: rows.jsonl\nmodel: { engine: fake }\nprompt: ${prompt}\n${limit}output: out\n`,
      );
    file("Say {{ text }}", "");
    expect(await me.call("run", "-c", "job.yaml")).toMatchObject({ code: 1 });
    file("Say {{ words }}", "limit: 1\n");
    const other = await me.look("retry", "out", "-c", "job.yaml");
    expect([other.code, other.stderr]).toEqual([
      64,
      expect.stringContaining("cannot change limit"),
    ]);
    file("Say {{ words }}", "");
    const { summary } = await me.call("retry", "out", "-c", "job.yaml");
    expect(summary).toMatchObject({ status: "SUCCESS", rows: { total: 3, answered: 3 } });
    await expectRows(me, { total: 3, answered: 3, failed: 0 });
  });
});
