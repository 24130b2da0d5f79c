import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { sluiceModule } from "../sluice-program.ts";
import { type Person, person } from "./person.ts";

const execute = promisify(execFile);

/** A program of three rows whose function closes over a number: which, how, and with what else. */
const program = `
import { dataset } from ${JSON.stringify(sluiceModule)};
const [by, how, ...options] = process.argv.slice(2);
const k = Number(by);
const closure = how === "told" ? { closure: { k } } : undefined;
try {
  const scaled = dataset.jsonl("rows.jsonl").map(({ id }) => ({ id: id * k }), closure);
  const fresh = options.includes("fresh");
  const { resumed } = await scaled.run({ output: "scaled-" + how, fresh });
  console.log(JSON.stringify({ resumed }));
} catch ({ code }) {
  console.log(JSON.stringify({ code }));
}
`;

function withRows(): Person {
  const me = person();
  me.write("rows.jsonl", '{"id":1,"text":"a"}\n{"id":2,"text":"b"}\n{"id":3,"text":"c"}\n');
  return me;
}

describe("what is called again, through the package", () => {
  it("a dataset says that rows are those of an earlier call, or is another run", async () => {
    const me = withRows();
    me.write("program.mjs", program);
    const call = async (...parameters: string[]) => {
      const words = ["program.mjs", ...parameters];
      const { stdout, stderr } = await execute(process.execPath, words, { cwd: me.folder });
      return { ...JSON.parse(stdout), stderr };
    };
    const ids = async (output: string) => {
      const { stdout } = await me.plain("results", output);
      return stdout.match(/\d+/g)!.map(Number);
    };
    expect(await call("2", "untold")).toMatchObject({ resumed: 0, stderr: "" });
    const again = await call("3", "untold");
    expect(again.resumed).toBe(3);
    expect(again.stderr).toContain("3 rows were computed by an earlier call and not again");
    expect(await ids("scaled-untold")).toEqual([2, 4, 6]);
    expect(await call("3", "untold", "fresh")).toMatchObject({ resumed: 0, stderr: "" });
    expect(await ids("scaled-untold")).toEqual([3, 6, 9]);
    await call("2", "told");
    expect(await call("3", "told")).toMatchObject({ code: "RUN_DIFFERS" });
    expect(await ids("scaled-told")).toEqual([2, 4, 6]);
  });

  it("digits of a dataset come through its cache", async () => {
    const me = person();
    me.write("rows.jsonl", '{"id":9007199254740993}\n{"id":9007199254740993}\n{"id":3}\n');
    me.write(
      "program.mjs",
      `import { dataset, generate } from ${JSON.stringify(sluiceModule)};
const next = ({ id }) => ({ id: typeof id === "bigint" ? id + 2n : id + 2 });
const asked = { model: { engine: "fake" }, prompt: "Say {{ id }}", generation: { temperature: 0 } };
const rows = dataset.jsonl("rows.jsonl").map(next).pipe(generate(asked));
const job = { cache: { path: "cache" } };
for (const output of ["first", "second"]) await rows.run({ output, job });
`,
    );
    await execute(process.execPath, ["program.mjs"], { cwd: me.folder });
    const first = await me.plain("results", "first");
    expect([...first.stdout.matchAll(/"id":(\d+)/g)].map(([, id]) => id)).toEqual([
      "9007199254740995",
      "9007199254740995",
      "5",
    ]);
    expect((await me.plain("results", "second")).stdout).toBe(first.stdout);
  });

  it("plan knows one's own predictor and program, and what was changed in them", async () => {
    const me = withRows();
    me.write("predict.mjs", "export const predict = (batch) => batch.map(() => 1);\n");
    me.write(
      "program.mjs",
      `import { createInterface } from "node:readline";
console.log('{"ready":1}');
for await (const line of createInterface({ input: process.stdin })) {
  const { batch, items } = JSON.parse(line);
  console.log(JSON.stringify({ batch, results: items.map(() => ({ value: 1 })) }));
}
`,
    );
    const models = {
      "predict.mjs": "{engine: predictor, module: ./predict.mjs}",
      "program.mjs": "{engine: command, command: node, args: [program.mjs]}",
    };
    for (const [file, model] of Object.entries(models)) {
      const job = ["--input", "rows.jsonl", "--output", `out-${file}`, "--set", `model=${model}`];
      expect((await me.call("run", ...job)).code, file).toBe(0);
      const plan = await me.look("plan", ...job);
      expect(plan.stdout + plan.stderr).toContain("which is finished: sluice run does nothing");
      expect(plan.stdout + plan.stderr).not.toContain("--fork");
      expect((await me.call("run", ...job)).summary.rows).toMatchObject({ resumed: 3 });
      me.write(file, me.read(file).replaceAll("=> 1", "=> 2").replaceAll("value: 1", "value: 2"));
      const changed = await me.look("plan", ...job);
      expect(changed.stdout + changed.stderr, file).toContain("run it with --fork or --overwrite");
      expect((await me.call("run", ...job, "--fork")).summary.rows).toMatchObject({ resumed: 0 });
    }
  });
});
