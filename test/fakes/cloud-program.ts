/**
 * Stands in for `sky` or `ibmcloud`, by its first argument: real workers run as processes of this
 * machine. It knows the commands and flags that Sluice uses and refuses others. Like the clouds, it
 * ends workers without notice, and starts one again that failed. Its state is in files of the
 * folder that `CLOUD_STATE` names.
 */
import { spawn } from "node:child_process";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

/** A worker: a job of SkyPilot, or a task of a fleet. */
interface Started {
  id: number;
  name: string;
  index: string;
  /** The shell that starts the worker, again after failures. */
  pid: number;
  /** The call that asked for it. */
  words: string[];
  isCanceled?: boolean;
}

/** Time until a failed worker starts again; the clouds take longer. */
const restartSeconds = 3;

const state = process.env.CLOUD_STATE!;
const [program, ...words] = process.argv.slice(2);

const file = (id: number, kind: string) => join(state, `${id}.${kind}`);

/** Keeps a record, which others read at any moment. */
function keep(started: Started): void {
  writeFileSync(file(started.id, "draft"), JSON.stringify(started));
  renameSync(file(started.id, "draft"), file(started.id, "json"));
}

const records = () =>
  readdirSync(state)
    .filter((name) => name.endsWith(".json"))
    .map((name) => JSON.parse(readFileSync(join(state, name), "utf8")) as Started)
    .sort((a, b) => a.id - b.id);

function start(name: string, index: string, retries: number, command: string[], more: object) {
  const id = records().length + 1;
  const log = openSync(file(id, "log"), "w");
  const script = `
    left=${retries}
    while :; do
      setsid "$@" & worker=$!
      echo $worker > ${file(id, "worker")}
      wait $worker; code=$?
      echo $code > ${file(id, "last")}
      [ $code = 0 ] || [ $left = 0 ] || [ -e ${file(id, "held")} ] && break
      left=$((left - 1))
      touch ${file(id, "waits")}; sleep ${restartSeconds}; rm ${file(id, "waits")}
    done
    echo $code > ${file(id, "code")}`;
  const child = spawn("/bin/sh", ["-c", script, "sh", ...command], {
    env: { ...process.env, ...more },
    detached: true,
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  child.unref();
  keep({ id, name, index, pid: child.pid!, words });
}

function stateOf({ id, isCanceled }: Started): { word: string; code?: number } {
  if (existsSync(file(id, "code"))) {
    const code = Number(readFileSync(file(id, "code"), "utf8"));
    const left = isCanceled || existsSync(file(id, "held")) ? "canceled" : "failed";
    return { word: code === 0 ? "succeeded" : left, code };
  }
  if (isCanceled) return { word: "canceled" };
  return { word: existsSync(file(id, "waits")) ? "waits" : "running" };
}

/** The process group of its worker; none where its shell has not come to that yet. */
function workerOf({ id }: Started): number[] {
  const text = existsSync(file(id, "worker")) ? readFileSync(file(id, "worker"), "utf8") : "";
  return text === "" ? [] : [Number(text)];
}

/** The machine is gone at once. */
function end(these: readonly Started[]): void {
  for (const it of these) {
    const { word } = stateOf(it);
    if (word !== "running" && word !== "waits") continue;
    keep({ ...it, isCanceled: true });
    for (const pid of [it.pid, ...workerOf(it)]) {
      try {
        process.kill(-pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;

async function sky(): Promise<void> {
  const [group, verb, ...args] = words;
  if (group !== "jobs") fail(`Error: No such command '${group}'.`);
  const options = {
    "num-jobs": text,
    name: { ...text, short: "n" },
    "detach-run": { ...flag, short: "d" },
    yes: { ...flag, short: "y" },
    secret: { ...text, multiple: true },
    all: { ...flag, short: "a" },
    verbose: { ...flag, short: "v" },
    output: { ...text, short: "o" },
    "no-follow": flag,
  } as const;
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
  if (verb === "launch") {
    // The many looks at its queue do without it.
    const { parse } = await import("yaml");
    const { run, resources } = parse(readFileSync(positionals[0]!, "utf8"));
    const retries = resources.job_recovery.max_restarts_on_errors;
    for (let rank = 0; rank < Number(values["num-jobs"]); rank++) {
      const SKYPILOT_JOB_RANK = `${rank}`;
      const SKYPILOT_MANAGED_JOB_ID = `${records().length + 1}`;
      const command = ["/bin/bash", "-c", run];
      const variables = { SKYPILOT_JOB_RANK, SKYPILOT_MANAGED_JOB_ID };
      start(values.name!, `${rank}`, retries, command, variables);
    }
    return;
  }
  if (records().length === 0)
    fail("sky.exceptions.ClusterNotUpError: No in-progress managed jobs.");
  if (verb === "queue") {
    const names: Record<string, string> = { canceled: "CANCELLED", waits: "RECOVERING" };
    const jobs = records().map((it) => {
      const { word } = stateOf(it);
      return { job_id: it.id, job_name: it.name, status: names[word] ?? word.toUpperCase() };
    });
    console.log(`\u001b[2mA message for people\u001b[0m\n${JSON.stringify(jobs, null, 2)}`);
  } else if (verb === "cancel") {
    end(records().filter(({ id }) => positionals.includes(`${id}`)));
  } else if (verb === "logs") {
    process.stdout.write(readFileSync(file(Number(positionals[0]), "log")));
  } else fail(`Error: No such command '${verb}'.`);
}

function codeEngine(): void {
  const flags = words.findIndex((word) => word.startsWith("--"));
  const verb = words.slice(1, flags).join(" ");
  const parsed = (options: Record<string, typeof text | typeof flag>) =>
    parseArgs({ args: words.slice(flags), options }).values as Record<string, string>;
  const named = (id: string | undefined) => {
    const own = records().filter(({ name }) => idOf(name) === id);
    return own.length > 0 ? own : fail(`FAILED\nfleet ${id} is not found`);
  };
  if (verb === "fleet create") return createFleet(parsed(createFlags));
  if (verb === "fleet list") {
    if (parsed({ output: text }).output !== "json") fail("the stand-in prints JSON only");
    const names = [...new Set(records().map(({ name }) => name))];
    console.log(JSON.stringify(names.map((name) => ({ id: idOf(name), name }))));
  } else if (verb === "fleet task list") {
    const tasks = named(parsed({ "fleet-id": text, output: text })["fleet-id"]).map((it) => {
      const { word, code } = stateOf(it);
      const status = word === "waits" ? "pending" : word;
      const result_code = code === undefined ? "" : `exit_${code}`;
      return { index: it.index, status, result_code, worker_name: `fleet-worker-${it.index}` };
    });
    console.log(JSON.stringify({ tasks }));
  } else if (verb === "fleet cancel") {
    const { "fleet-id": id, hard } = parsed({ "fleet-id": text, hard: flag, force: flag });
    for (const it of named(id)) writeFileSync(file(it.id, "held"), "");
    end(named(id).filter((it) => hard || stateOf(it).word === "waits"));
  } else fail(`'${verb}' is not a registered command.`);
}

const idOf = (name: string) => `id-of-${name}`;

const createFlags = Object.fromEntries(
  [
    ...["name", "image", "registry-secret", "tasks-from-local-file", "tasks-state-store"],
    ...["subnetpool-name", "worker-profile", "cpu", "memory", "gpu", "max-scale", "retrylimit"],
    ...["maxexecutiontime", "mount-data-store", "env", "env-from-secret"],
  ].map((name) => [name, text]),
);

function createFleet(values: Record<string, string>): void {
  const lines = readFileSync(values["tasks-from-local-file"]!, "utf8").trim().split("\n");
  for (const line of lines) {
    const { cmds, args, idx } = JSON.parse(line);
    const CE_FLEET_NAME = values.name!;
    const command = [...cmds, ...args];
    start(CE_FLEET_NAME, idx, Number(values.retrylimit), command, {
      CE_TASK_INDEX: idx,
      CE_FLEET_NAME,
    });
  }
  console.log(
    `Successfully created fleet with name '${values.name}' and ID '${idOf(values.name!)}'`,
  );
}

if (program === "sky") await sky();
else if (words[0] === "code-engine") codeEngine();
else fail(`'${words[0]}' is not a registered command.`);
