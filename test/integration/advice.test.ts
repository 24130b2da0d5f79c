import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { pause, startSluice } from "../chaos/sluice-process.ts";
import { root, type SyntaxNode, sourceFiles, walk } from "../meta/source-tree.ts";
import { sluiceModule } from "../sluice-program.ts";
import { expectRows, type Person, person } from "./person.ts";

/*
 * Every text of the program that names a command is met here as a person meets it, the command is
 * carried out as it stands there, and it does what was promised.
 */

/** Texts of the sources that were met. */
const met = new Set<string>();

/** Texts that other tests meet, or that advise nothing to be done here, each with the reason. */
const elsewhere: Record<string, string> = {
  "… of … tasks failed; sluice retry … runs them again": "test/integration/fleet-states.test.ts",
  "; sluice cancel … tries again": "test/integration/clouds.test.ts cancels such workers",
  "batches at the provider are still carried out: the same command takes their answers, sluice cancel cancels them":
    "test/integration/provider-batches.test.ts does both",
  "look at the batch at the provider; sluice retry sends the request in another one":
    "test/integration/provider-batches.test.ts has such requests",
  "if no other call is planning it: sluice fleet delete --name …, and create it again":
    "test/integration/fleet-states.test.ts does both",
  "give --worker-name, as sluice fleet worker list shows it":
    "test/integration/fleet.test.ts deletes a worker by its name there",
  "sluice doctor shows this machine; --cpu, --memory and --gpu book a part of it":
    "test/integration/fleet-bookings.test.ts books parts",
  "OTEL_METRICS_EXPORTER=… has no effect: sluice serve has metrics at /metrics":
    "test/integration/serve-grafana.test.ts reads them",
  "sluice engine measure finds the fastest engine of this machine":
    "test/integration/openvino.test.ts does it, and takes what it advises",
  "sluice attach DIR shows it; sluice cancel DIR stops it":
    "test/integration/slurm.test.ts detaches, attaches and cancels",
  "left; the run continues: sluice attach …\n": "likewise",
  "sluice attach …": "likewise",
  "sluice cancel …": "likewise",
  "sluice status …": "likewise",
  "sluice …": "the comment by which the jobs of a run are found at Slurm",
  "sluice logs DIR says why; the same command submits the rest again":
    "test/peers/slurm-losses.test.ts does both",
  "sluice logs … says why; the same command submits the rest again": "likewise",
  "sluice logs … --share …": "likewise",
  "sluice logs … says more; the same command continues": "test/integration/ray.test.ts does both",
  "fix what it names; sluice render prints what is sent to it":
    "test/integration/slurm.test.ts prints it",
  "sluice results …": "test/integration/terminal.test.ts carries out what a summary names",
  "sluice results … --failed": "likewise",
  "sluice retry … --where finish_reason=length --set …":
    "test/integration/sampling.test.ts carries it out",
  "sluice retry …": "likewise",
  "# sluice: sluice completion fish | source": "test/integration/completion.test.ts does it",
  "complete -c sluice … -a … -d …": "a line of the completion of fish",
  "complete -c sluice … … -d …": "likewise",
  "by sluice cancel": "says who stopped the run",
  "sluice run would stop: …": "the hint of what would stop it follows",
  "move it, or name another --output: only what sluice shard wrote is replaced":
    "names what the folder is not",
  "requested; sluice status says when it has stopped":
    "nothing is promised of the command but a look",
  "it has not stopped yet; sluice status says when it has": "likewise",
  "a store without conditional writes needs one coordinator: sluice run":
    "test/integration/s3-run.test.ts runs it",
  "run sluice model pull NAME": "test/integration/models.test.ts fetches models",
  "run sluice model pull …": "likewise",
  "run sluice model remove …, then sluice model pull …": "likewise",
  "run sluice model remove NAME, then sluice model pull NAME": "likewise",
  "run sluice engine add NAME": "test/integration/engine-packages.test.ts adds one",
  "run sluice engine add …": "likewise",
  "sluice engine add … adds it now": "likewise",
  "check that npm reaches its registry, then sluice engine add NAME": "likewise",
  "sluice doctor says why; name GPUs that nvidia-smi does not list, as devices: [0], or leave ":
    "needs a machine with GPUs",
  "look at the row and at the stage; once it is fixed, sluice retry processes the row again":
    "test/integration/dataset.test.ts does it",
  "look at the row; if something else ended the workers, sluice retry processes it again":
    "test/integration/processes.test.ts kills workers",
  "plan the run, and start sluice worker on each machine: see docs/worker-contract.md":
    "a plan with workers is met below",
  "read its failed rows (sluice results --failed), and run those as a dataset of their own; ":
    "test/integration/dataset.test.ts does it",
  "write the rows to a file, or pipe them into sluice run": "every run here reads a file",
  "Run 'sluice fleet get …' to check the fleet status.":
    "test/integration/fleet-recipes.test.ts calls it as it is printed",
  "Run 'sluice fleet task list …' to retrieve a list of tasks.": "likewise",
  "Run 'sluice fleet worker list …' to retrieve a list of provisioned workers.": "likewise",
  "cancel it first: sluice fleet cancel --name …":
    "test/integration/fleet.test.ts meets it, and cancels fleets",
  "read its output with sluice fleet logs, or in the run directory; sluice retry runs it again":
    "test/integration/fleet.test.ts does both",
  "sluice fleet add --name … gives it more tasks; or take another --name":
    "test/integration/fleet.test.ts adds tasks",
  "sluice fleet list shows those there; --fleets names another place":
    "test/integration/fleet.test.ts lists them",
  "sluice fleet resume --name …": "test/integration/fleet.test.ts resumes one",
  "sluice fleet task list shows indexes and ids": "test/integration/fleet.test.ts lists tasks",
  "this describes a fleet of commands: sluice fleet create -c reads it":
    "test/integration/fleet.test.ts creates one so",
  "call it in the folder where sluice serve --start was called":
    "test/integration/serve-archives.test.ts starts and stops there",
  "end it with sluice serve --stop, or start the other one in a folder of its own": "likewise",
  "make it anew with sluice archive; docs/torchserve.md says what it may hold":
    "test/integration/serve-archives.test.ts makes archives",
  "see sluice archive --help": "names the help",
  "name an image with Node.js and Sluice: sluice image builds one":
    "test/integration/image.test.ts builds it",
  "run sluice engine add llama --hardware vulkan, or take a newer driver: docs/engines.md#gpus; ":
    "test/engines/llama/gpu.test.ts has the package taken; it needs a GPU to help",
  "update the driver, or run sluice engine add llama --hardware vulkan; ": "likewise",
  "the fleet has no tasks; sluice fleet add gives it some":
    "test/integration/fleet.test.ts adds tasks",
  "name the image: sluice image --tag NAME": "test/integration/image.test.ts names it",
};

/**
 * The parameters of the command that an advice names.
 *
 * @param said - what the program printed.
 * @param source - the text as the sources have it, `…` where something is put in.
 * @param command - the part of it that is carried out, without `sluice`.
 * @param names - what a person puts in the place of names such as DIR.
 */
function advised(
  said: string,
  source: string,
  command: string,
  names: Record<string, string> = {},
): string[] {
  met.add(source);
  const texts = source.split("…").map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const [found, ...values] =
    new RegExp(texts.join("(.+?)").replace(/\(\.\+\?\)$/, "([^\\s,;]+)")).exec(said) ?? [];
  expect(found, `"${source}" in:\n${said}`).toBeDefined();
  expect(source).toContain(`sluice ${command}`);
  const before = source.slice(0, source.indexOf(`sluice ${command}`)).split("…").length - 1;
  let hole = before;
  const words = command.replace(/…/g, () => values[hole++]!).split(" ");
  return words.map((word) => names[word] ?? word);
}

const job = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];
const run = ["run", ...job, "--output", "out"];
const gatedModel = ["--set", "model={engine: predictor, module: ./gated.mjs, maxBatchRows: 1}"];
const gated = [...gatedModel, "--set", "shard.rows=2"];

/** Answers as many rows as a file says, and holds the others. */
const gatedModule = `
  import { appendFileSync, readFileSync } from "node:fs";
  export async function predict(batch) {
    appendFileSync("asked.txt", ".");
    const asked = readFileSync("asked.txt").length;
    while (asked > Number(readFileSync("limit.txt"))) {
      await new Promise((later) => setTimeout(later, 20));
    }
    return batch.map(() => "said");
  }`;

function withRows(count = 3): Person {
  const me = person();
  const rows = Array.from({ length: count }, (_, row) => `{"id":${row},"text":"row ${row}"}\n`);
  me.write("rows.jsonl", rows.join(""));
  me.write("gated.mjs", gatedModule);
  return me;
}

/** Stops a command over `gatedModel` once it has asked so many rows; the last one waits by then. */
async function stopAfter(asked: number, command: readonly string[], me: Person): Promise<void> {
  me.write("asked.txt", "");
  me.write("limit.txt", String(asked - 1));
  const process = startSluice(command, me.folder);
  while (me.read("asked.txt").length < asked && !process.hasEnded()) await pause(20);
  process.kill("SIGTERM");
  while (!process.stderr().includes("stopping: ") && !process.hasEnded()) await pause(20);
  me.write("limit.txt", String(asked));
  const { code, stderr } = await process.ended;
  expect(code, stderr).toBe(143);
  me.write("limit.txt", "1000");
}

const errorsPage = readFileSync(join(root, "docs/errors.md"), "utf8");

describe("advice is carried out and helps", () => {
  it("about rows that were broken in the input", async () => {
    const me = withRows();
    me.write("rows.jsonl", `${me.read("rows.jsonl")}{"id":3,"text":"half\n{"id":4}\n`);
    await me.call(...run);
    const { stdout } = await me.plain("status", "out");
    const first = advised(stdout, "sluice retry … --reread", "retry … --reread");
    expect((await me.call(...first)).summary.rows).toMatchObject({ answered: 3, failed: 2 });

    const broken = me.read("rows.jsonl");
    me.write("rows.jsonl", broken.replace('"half', '"half, mended"}'));
    const ran = await me.call(...run);
    const restore = "sluice retry … --reread; else restore the input, or start a new run with ";
    const reread = advised(ran.stderr, restore, "retry … --reread");
    expect((await me.call(...reread)).summary.rows).toMatchObject({ answered: 4, failed: 1 });

    me.write("rows.jsonl", me.read("rows.jsonl").replace('{"id":4}', '{"id":4,"text":"there"}'));
    const changed = await me.call("retry", "out");
    const there = "if failed rows were corrected there: sluice retry … --reread";
    const mended = await me.call(...advised(changed.stderr, there, "retry … --reread"));
    expect(mended.summary.rows).toMatchObject({ answered: 5, failed: 0 });
    await expectRows(me, { total: 5, answered: 5, failed: 0 });
  });

  it("about rows that were appended, and corrected at once", async () => {
    const me = withRows();
    me.write("rows.jsonl", `${me.read("rows.jsonl")}{"id":3}\n`);
    await me.call(...run);
    const mended = me.read("rows.jsonl").replace('{"id":3}', '{"id":3,"text":"there"}');
    me.write("rows.jsonl", `${mended}{"id":4,"text":"more"}\n`);
    const early = await me.call(...run, "--extend");
    const reread = "failed rows that were corrected: sluice retry … --reread";
    const first = await me.plain(...advised(early.stderr, reread, "retry … --reread"));
    const appended = "… rows were appended to the input: sluice run with --extend processes them";
    expect(advised(first.stderr, appended, "run with --extend")).toContain("--extend");
    expect((await me.call(...run, "--extend")).summary.rows).toMatchObject({ total: 5 });
    await expectRows(me, { total: 5, answered: 5, failed: 0 });
  });

  it("about a run that stopped", async () => {
    const me = withRows(6);
    await stopAfter(4, [...run, ...gated], me);
    const { stdout } = await me.plain("status", "out");
    const either = "sluice resume …";
    const resumes = advised(stdout, either, "resume …");
    const worker = advised(stdout, "sluice worker … --tasks …", "worker … --tasks …");
    const unproven = await me.plain("verify", "out");
    const source = "a run is verified once it is sealed: sluice status DIR says how far it is";
    const status = advised(unproven.stderr, source, "status DIR", { DIR: "out" });
    expect((await me.plain(...status)).stdout).toContain("6 in all");
    const says = "sluice status DIR says what it lacks; the same command continues it";
    expect(advised(errorsPage, says, "status DIR", { DIR: "out" })).toEqual(status);
    const plan = await me.look("plan", ...run.slice(1), ...gated);
    advised(plan.stdout + plan.stderr, "… of … tasks done: sluice run continues it", "run");
    const following = startSluice(["results", "out", "--follow"], me.folder);
    while (!following.stderr().includes("continues it") && !following.hasEnded()) await pause(20);
    following.kill("SIGTERM");
    advised((await following.ended).stderr, "…: sluice resume … continues it\n", "resume …");
    const seal = await me.plain("seal", "out");
    const open = advised(seal.stderr, "sluice worker … --tasks …", "worker … --tasks …");
    expect(open).toEqual(worker);
    const retry = await me.look("retry", "out");
    const resume = advised(retry.stderr, "finish the run first: sluice resume …", "resume …");
    expect(resume).toEqual(resumes);
    expect((await me.plain(...worker)).code).toBe(0);
    expect((await me.call(...resume)).summary.rows).toMatchObject({ resumed: 6 });
    await expectRows(me, { total: 6, answered: 6, failed: 0 });
    expect(
      (
        await me.plain(
          ...advised(errorsPage, "run sluice verify DIR for each place", "verify DIR", {
            DIR: "out",
          }),
        )
      ).code,
    ).toBe(0);
  });

  it("about a run whose tasks are all done", async () => {
    const me = withRows();
    await me.call(...run);
    // As if it had ended before its seal.
    for (const name of ["_SUCCESS", "_manifest.json", "_sluice/seals", "_sluice/manifests"]) {
      rmSync(join(me.folder, "out", name), { recursive: true });
    }
    const { stdout } = await me.plain("status", "out");
    const seal = advised(stdout, "  every task is done: sluice seal …", "seal …");
    expect((await me.plain(...seal)).code).toBe(0);
    await expectRows(me, { total: 3, answered: 3, failed: 0 });
  });

  it("about a retry that is begun", async () => {
    const begun = async () => {
      const me = withRows();
      me.write("rows.jsonl", `${me.read("rows.jsonl")}{"id":3}\n{"id":4}\n{"id":5}\n`);
      await me.call(...run);
      await stopAfter(2, ["retry", "out", "--set", "prompt=Say {{ id }}", ...gatedModel], me);
      return me;
    };
    const me = await begun();
    const { stdout } = await me.plain("status", "out");
    const told = "  to continue: sluice resume …; to drop it: sluice retry … --abandon";
    expect((await me.plain(...advised(stdout, told, "retry … --abandon"))).code).toBe(0);
    await expectRows(me, { total: 6, answered: 3, failed: 3 });

    const other = await begun();
    const cleaned = await other.plain("clean", "out");
    const either = "sluice resume … finishes it, sluice retry … --abandon drops it";
    const resume = advised(cleaned.stderr, either, "resume …");
    const refused = await other.call("retry", "out", "--set", "prompt=Shout {{ id }}");
    const both = "finish it with sluice resume …, or drop it with sluice retry … --abandon ";
    expect(advised(refused.stderr, both, "resume …")).toEqual(resume);
    expect((await other.call(...resume)).code).toBe(0);
    expect((await other.plain("clean", "out")).code).toBe(0);
    await expectRows(other, { total: 6, answered: 6, failed: 0 });
  });

  it("about what a plan finds at the output", async () => {
    const me = withRows(6);
    const plan = (...parameters: string[]) => me.look("plan", ...run.slice(1), ...parameters);
    const endless = startSluice(
      [...run, "--set", "model={engine: fake, latencyMs: 60000}", "--prompt", "Wait"],
      me.folder,
    );
    while (!existsSync(join(me.folder, "out/_sluice/coordinators/000001.json"))) await pause(20);
    endless.killGroup("SIGKILL");
    await endless.ended;
    const replaced = await plan();
    const source = "it answered nothing, and sluice run replaces it";
    advised(replaced.stdout + replaced.stderr, source, "run");
    const planned = await plan("--write", "--set", "shard.rows=2");
    for (const command of ["worker … --tasks …", "worker … --share 0/…"]) {
      const worker = advised(planned.stdout, `sluice ${command}`, command);
      expect((await me.plain(...worker)).code).toBe(0);
    }
    const status = advised(
      planned.stdout,
      "how far it is:                     sluice status …\n",
      "status …",
    );
    expect((await me.plain(...status)).code).toBe(0);
    const doctor = advised(errorsPage, "run sluice doctor", "doctor");
    expect((await me.plain(...doctor)).stdout).toContain("node");
    const done = "which is finished: sluice run does nothing";
    expect(advised((await plan("--set", "shard.rows=2")).stdout, done, "run")).toEqual(["run"]);
    const again = await me.call(...run, "--set", "shard.rows=2");
    expect(again.summary.rows).toMatchObject({ total: 6, resumed: 6 });
  });

  it("about files that are no job files", async () => {
    const me = withRows();
    const given = await me.look("run", "rows.jsonl");
    const names = { NAME: "fake", TEMPLATE: "{{text}}" };
    const whole = "… --input … --model NAME --prompt TEMPLATE --output out";
    const input = advised(given.stderr, `sluice ${whole}; `, whole, names);
    expect((await me.call(...input)).summary.rows).toMatchObject({ answered: 3 });
    const init = advised(given.stderr, "sluice init writes a job file to begin with", "init");
    expect((await me.look(...init)).code).toBe(0);
    const folder = await me.look("run", "out");
    const resume = advised(
      folder.stderr,
      "if it holds a run, sluice resume … continues it",
      "resume …",
    );
    expect((await me.call(...resume)).summary.rows).toMatchObject({ answered: 3 });
    const batch = await me.look("run-batch", "rows.jsonl");
    expect(
      advised(
        batch.stderr,
        "sluice run-batch -i … -o responses.jsonl --model NAME",
        "run-batch -i …",
      ),
    ).toContain("rows.jsonl");
  });

  it("about a first job", async () => {
    const me = person();
    const none = await me.look("run");
    const source =
      "name a job file (sluice run job.yaml), or give --input, --model and --prompt; sluice init writes a job file";
    const first = await me.look(...advised(none.stderr, source, "init"));
    const fake = "sluice run … --model fake --output …";
    const trial = advised(first.stdout, fake, "run … --model fake --output …");
    const done = await me.call(...trial);
    expect(done.summary).toMatchObject({ status: "SUCCESS" });
    const look = "sluice plan …";
    expect((await me.look(...advised(first.stdout, look, "plan …"))).code).toBe(0);
    const twice = await me.look("init");
    const other = "name another directory, as sluice init first-job";
    expect((await me.look(...advised(twice.stderr, other, "init first-job"))).code).toBe(0);
    const bare = await me.look("first-job/job.yaml", "--model", "fake");
    const run = advised(bare.stderr, "sluice run …", "run …");
    expect((await me.call(...run, "--model", "fake")).code).toBe(0);
  });

  it("about what was typed wrong", async () => {
    const me = withRows();
    const help = advised(errorsPage, "see sluice run --help for every option", "run --help");
    expect((await me.look(...help)).stdout).toContain("--input");
    await me.call(...run);
    const none = await me.plain("status", "nowhere");
    expect(none.stderr).toContain("give the directory that sluice run wrote to");
    met.add("give the directory that sluice run wrote to");
    expect((await me.plain("status", "out")).code).toBe(0);
    const nobody = await me.look("worker", "--tasks", "0");
    const worker = advised(nobody.stderr, "name the run: sluice worker RUN …", "worker RUN", {
      RUN: "out",
    });
    expect((await me.plain(...worker, "--tasks", "0")).code).toBe(0);
    const list = advised(
      (await me.look("engine", "add", "quux")).stderr,
      "run sluice engine list",
      "engine list",
    );
    expect((await me.look(...list)).stdout).toContain("llama");
    const known = advised(errorsPage, "run sluice model list", "model list");
    expect((await me.look(...known)).stdout).toContain("smollm2");
    const batch = await me.look("run-batch");
    const names = { NAME: "fake" };
    const command = "run-batch -i requests.jsonl -o responses.jsonl --model NAME";
    const answer = advised(batch.stderr, `sluice ${command}`, command, names);
    const body = { messages: [{ role: "user", content: "hi" }] };
    const request = { custom_id: "1", method: "POST", url: "/v1/chat/completions", body };
    me.write("requests.jsonl", `${JSON.stringify(request)}\n`);
    expect((await me.call(...answer)).code).toBe(0);
    me.write(
      "axolotl.yaml",
      "base_model: fake\ndatasets:\n  - path: rows.jsonl\n    type: completion\n",
    );
    const axolotl = await me.look("run", "axolotl.yaml");
    const config = "this looks like a config of Axolotl: sluice inference batch -c reads it";
    const inference = advised(axolotl.stderr, config, "inference batch -c");
    expect((await me.call(...inference, "axolotl.yaml")).stderr).not.toContain("OPTION_UNKNOWN");
    me.write("list.yaml", '- {"id":1}\n');
    const noMapping = await me.look("run", "list.yaml");
    const byInput =
      "a file of rows is given by --input; sluice init writes a job file to begin with";
    expect((await me.look(...advised(noMapping.stderr, byInput, "init"))).code).toBe(0);
  });

  it("about lines and records to be mended", async () => {
    const me = withRows();
    const lines = "correct the line, then run sluice retry RUN --reread";
    const command = "retry RUN --reread";
    const names = { RUN: "out" };
    me.write("rows.jsonl", `${me.read("rows.jsonl")}{"id":3,\n`);
    await me.call(...run);
    me.write("rows.jsonl", me.read("rows.jsonl").replace('{"id":3,', '{"id":3,"text":"whole"}'));
    expect((await me.call(...advised(errorsPage, lines, command, names))).code).toBe(0);
    await expectRows(me, { total: 4, answered: 4, failed: 0 });

    const records = "correct the record, then run sluice retry RUN --reread";
    me.write("rows.csv", "id,text\n1,one\n2,two,three\n");
    await me.call(...run.with(2, "rows.csv"), "--overwrite");
    me.write("rows.csv", 'id,text\n1,one\n2,"two,three"\n');
    expect((await me.call(...advised(errorsPage, records, command, names))).code).toBe(0);
    await expectRows(me, { total: 2, answered: 2, failed: 0 });
  });

  it("about corrected rows in a file of their own", async () => {
    const me = withRows();
    me.write("rows.jsonl", `{"id":"a"}\n${me.read("rows.jsonl")}{"id":"b"}\n`);
    await me.call(...run);
    me.write("mended.jsonl", '{"id":"a","text":"first"}\n');
    const tooFew = await me.call("retry", "out", "--reread", "mended.jsonl");
    const command = "results RUN --failed --as-input";
    const source = `give the failed rows alone, in their order: sluice ${command}`;
    const failed = await me.plain(...advised(tooFew.stderr, source, command, { RUN: "out" }));
    me.write("mended.jsonl", failed.stdout.replaceAll("}", ',"text":"mended"}'));
    const alone = await me.plain("results", "out", "--as-input");
    const toFile = "results RUN --failed --as-input --output failed.jsonl";
    const wrote = advised(alone.stderr, `sluice ${toFile}`, toFile, { RUN: "out" });
    expect((await me.plain(...wrote)).code).toBe(0);
    expect(me.read("failed.jsonl")).toBe(failed.stdout);
    const mended = await me.call("retry", "out", "--reread", "mended.jsonl");
    expect(mended.summary.rows).toMatchObject({ answered: 5, failed: 0 });
    await expectRows(me, { total: 5, answered: 5, failed: 0 });
  });

  it("about an input that lies in one piece", async () => {
    const me = withRows(400);
    writeFileSync(join(me.folder, "rows.jsonl.gz"), gzipSync(me.read("rows.jsonl")));
    const model = ["--set", "model={engine: fake, latencyMs: 200, capacity: 1}"];
    const advise = async (...input: string[]) => {
      const { stdout, stderr } = await me.look(
        ...["plan", ...input, ...job.slice(2), ...model, "--output", "out"],
        ...["--advise", "--deadline", "30s"],
      );
      return stdout + stderr;
    };
    const source = "one worker reads: sluice shard cuts it into chunks";
    const shard = advised(await advise("--input", "rows.jsonl.gz"), source, "shard");
    const cut = await me.look(...shard, "rows.jsonl.gz", "--shards", "8", "--output", "chunks");
    expect(cut).toMatchObject({ code: 0 });
    expect(await advise("--input-list", "chunks/metadata.txt")).not.toContain("in one piece");
  });

  it("about a predictor that fails with a row", async () => {
    const me = withRows();
    const failing = (row: string) =>
      `export const predict = (batch) => batch.map(({ row }) => ${row});\n`;
    me.write("predict.mjs", failing('row.id === 1 ? new Error("not yet") : row.text.length'));
    const predicting = ["--set", "model={engine: predictor, module: ./predict.mjs}"];
    const input = ["--input", "rows.jsonl", "--output", "out"];
    expect((await me.call("run", ...input, ...predicting)).code).toBe(1);
    me.write("predict.mjs", failing("row.text.length"));
    const { stdout } = await me.plain("status", "out");
    expect(stdout).toContain("out  processes them again, once the cause is fixed");
    const source =
      "look at the row and at the predictor; once it is fixed, sluice retry processes the row again";
    const retry = advised(errorsPage, source, "retry");
    expect((await me.call(...retry, "out")).code).toBe(0);
    await expectRows(me, { total: 3, answered: 3, failed: 0 });
  });

  it("about a run that another process works on", async () => {
    const me = withRows(40);
    const model = "model={engine: fake, capacity: 1, latencyMs: 300}";
    const slow = ["--set", model, "--set", "shard.rows=2"];
    const slower = startSluice([...run, ...slow], me.folder);
    while (!existsSync(join(me.folder, "out/_sluice/coordinators/000001.json"))) await pause(20);
    const second = await me.call(...run, ...slow);
    expect(second.stderr).toContain("COORDINATOR_LIVES");
    const cancel = advised(second.stderr, "wait for it, or sluice cancel DIR", "cancel DIR", {
      DIR: "out",
    });
    const asked = await me.plain(...cancel);
    expect(asked.code).toBe(0);
    await slower.ended;
    const { stdout } = await me.plain("status", "out");
    expect(stdout).toContain("by sluice cancel");
  });

  it("about a dataset whose rows failed", async () => {
    const me = withRows();
    const program = [
      `import { dataset } from ${JSON.stringify(sluiceModule)};`,
      'const failing = (row) => { if (row.id === 1) throw new Error("not this one"); return row; };',
      'await dataset.jsonl("rows.jsonl").map(failing).materialize("kept").catch((error) => {',
      "  console.log(error.hint);",
      "});",
    ];
    me.write("program.mjs", program.join("\n"));
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, ["program.mjs"], { cwd: me.folder });
    const source =
      "job: { maxFailedRows } says how many may fail; sluice results … --failed shows them";
    const failed = await me.plain(...advised(stdout, source, "results … --failed"));
    expect(failed.stdout).toContain("not this one");
  });

  it("all of it was met", () => {
    const texts = textsWithCommands();
    const known = new Set([...met, ...Object.keys(elsewhere)]);
    expect(texts.filter((text) => !known.has(text))).toEqual([]);
    expect(
      [...known].filter((text) => !texts.includes(text)),
      "no longer there",
    ).toEqual([]);
  });
});

const commands = readdirSync(join(root, "src/cli/commands")).map((name) => name.replace(".ts", ""));

/** Each text of the sources that names a command, `…` for what is put in; help aside. */
function textsWithCommands(): string[] {
  const texts = new Set<string>();
  const names = new RegExp(`\\bsluice (?:…|${commands.join("|")})(?![\\w-])`);
  for (const { program } of sourceFiles("src")) {
    walk(program, (node, ancestors) => {
      const text = textOf(node);
      // Long texts are pages of help, and the first job file.
      if (text === undefined || text.split("\n").length > 3 || isHelp(ancestors)) return;
      if (names.test(text)) texts.add(text);
    });
  }
  return [...texts].sort();
}

function textOf(node: SyntaxNode): string | undefined {
  if (node.type === "Literal" && typeof node.value === "string") return node.value;
  if (node.type !== "TemplateLiteral") return undefined;
  const quasis = node.quasis as { value: { cooked: string } }[];
  return quasis.map(({ value }) => value.cooked).join("…");
}

/** Help says what there is, and promises nothing. */
function isHelp(ancestors: readonly SyntaxNode[]): boolean {
  return ancestors.some(({ type, callee }) => {
    const property = (callee as SyntaxNode | undefined)?.property as { name?: string } | undefined;
    return (
      type === "CallExpression" &&
      /^(addHelpText|description|option|summary|argument)$/.test(property?.name ?? "")
    );
  });
}
