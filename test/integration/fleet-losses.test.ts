import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { seededRandom } from "../../src/foundation/random.ts";
import type { FleetTask } from "../../src/run/fleet/fleet-status.ts";
import { isRunning, killQuietly, pause } from "../chaos/sluice-process.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { scratchFolder } from "../run/whole-run.ts";

/** A fleet of 1,000, as in `npm run test:long`, takes minutes. */
const commands = Number(process.env.TEST_SLUICE_COMMANDS ?? 250);
/** How often everything of `order` is killed. */
const rounds = Math.floor(commands / 250);
const tries = 3;

/** What the program of a task does, in each of its tries. */
type Kind = "works" | "fails" | "hangs" | "dies" | "flaky";

function kindOf(index: number): Kind {
  if (index % 50 === 7) return "fails";
  if (index % 97 === 5) return "hangs";
  if (index % 61 === 11) return "dies";
  return index % 83 === 3 ? "flaky" : "works";
}

/** A line in a file of the task for each start and for each end that is good. */
const program = `
echo "start $$" >> effects/$SLUICE_TASK_INDEX
case $1 in
fails) echo it is broken >&2; exit 3 ;;
hangs) sleep 300 & sleep 300 ;;
dies) kill -9 $$ ;;
flaky) [ "$(grep -c start effects/$SLUICE_TASK_INDEX)" -gt 1 ] || exit 75 ;;
works) sleep 0.1$((SLUICE_TASK_INDEX % 10)) ;;
esac
echo done >> effects/$SLUICE_TASK_INDEX
`;

const effectsOf = (folder: string, index: number) => {
  const text = readFileSync(join(folder, "effects", String(index)), "utf8");
  const lines = text.trimEnd().split("\n");
  const started = lines.filter((line) => line.startsWith("start ")).map((line) => line.slice(6));
  return { started, done: lines.filter((line) => line === "done").length };
};

/** The tries of a task, by their logs; nobody knows how far one came that was killed or late. */
function loggedTries(folder: string, row: number): ("well" | "badly" | "killed")[] {
  const logs = join(folder, `fleets/big/runs/000001/_sluice/logs/${row}`);
  return readdirSync(logs).map((name) => {
    const last = readFileSync(join(logs, name), "utf8").trimEnd().split("\n").at(-1) || "{}";
    const { end } = JSON.parse(last) as {
      end?: { exitCode: number | null; how: string; isLate: boolean };
    };
    if (!end || end.how === "signal SIGKILL" || end.isLate) return "killed";
    return end.exitCode === 0 ? "well" : "badly";
  });
}

/** Processes whose command line has a text; only Linux tells. */
function processesWith(text: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, "utf8").includes(text);
      } catch {
        return false;
      }
    })
    .map(Number)
    .filter((pid) => pid !== process.pid && isRunning(pid));
}

/** What is killed, in this order, over and over. */
const order = [
  "program",
  "program",
  "worker",
  "program",
  "worker",
  "program",
  "coordinator",
] as const;

/** Kills what works on the fleet until enough of everything was killed. */
async function killSome(calls: FleetCalls): Promise<string[]> {
  const random = seededRandom(5);
  const killed: string[] = [];
  const pick = <Item>(items: readonly Item[]): Item | undefined =>
    items[Math.floor(random.next() * items.length)];
  const victims = {
    program: async () => pick(processesWith(join(calls.folder, "program.sh"))),
    async worker() {
      const workers = await calls.workers("big");
      return pick(workers.filter(({ state }) => state === "running"))?.pid;
    },
    async coordinator() {
      const { runs } = await calls.get("big");
      const pid = /by process (\d+)/.exec(runs[0]?.reason ?? "")?.[1];
      return pid === undefined ? undefined : Number(pid);
    },
  };
  while (killed.length < rounds * order.length) {
    await pause(300);
    const what = order[killed.length % order.length]!;
    const pid = await victims[what]();
    if (pid === undefined) continue;
    killQuietly(pid, "SIGKILL");
    killed.push(what);
  }
  return killed;
}

describe("a fleet of commands with losses", () => {
  it("knows each state, and each effect", async (context) => {
    context.skip(process.platform !== "linux", "programs are found in /proc");
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    mkdirSync(join(folder, "effects"));
    const script = join(folder, "program.sh");
    writeFileSync(script, program);
    const lines = Array.from({ length: commands }, (_, index) =>
      JSON.stringify({ cmds: ["sh", script], args: [kindOf(index)] }),
    );
    writeFileSync(join(folder, "commands.jsonl"), `${lines.join("\n")}\n`);
    await calls.fleet(
      ...["create", "--name", "big", "--tasks-from-local-file", "commands.jsonl", "--cpu", "0.5"],
      ...["--retries", String(tries - 1), "--timeout", "1.5s", "--max-scale", "4"],
    );
    const killing = killSome(calls);
    let resumed = 0;
    for (;;) {
      const fleet = await calls.untilOver("big", 300_000);
      const open = fleet.tasks.total - fleet.tasks.successful - fleet.tasks.failed;
      const isSealed = fleet.runs[0]?.reason?.startsWith("sealed") === true;
      if (isSealed && open === 0) break;
      // The same that a person does after a coordinator died.
      resumed++;
      await calls.call("fleet", "resume", "--name", "big", "--quiet");
    }
    expect(await killing).toHaveLength(rounds * order.length);
    expect(resumed).toBe(rounds);
    const tasks = await calls.tasks("big");
    expect(tasks.map(({ index }) => index)).toEqual(lines.map((_, index) => String(index)));
    const wrong = tasks.flatMap((task) => faultsOf(task, folder));
    expect(wrong).toEqual([]);
    const { tasks: states } = await calls.get("big");
    const failed = tasks.filter(({ state }) => state === "failed").length;
    expect(states).toMatchObject({ total: commands, failed, successful: commands - failed });
    expect(await calls.call("verify", "fleets/big/runs/000001")).toMatchObject({ code: 0 });
    // Nothing of a program is left: neither of those that were ended nor of those of lost workers.
    expect(processesWith(script)).toEqual([]);
  });
});

/** What is not true of a task. */
function faultsOf(task: FleetTask, folder: string): string[] {
  const index = Number(task.index);
  const kind = kindOf(index);
  const { started, done } = effectsOf(folder, index);
  const logged = loggedTries(folder, task.row);
  const count = (word: string) => logged.filter((each) => each === word).length;
  const faults: string[] = [];
  const check = (isTrue: boolean, what: string) => {
    if (!isTrue)
      faults.push(
        `${task.index} ${kind} ${what}: ${JSON.stringify({ task, started, done, logged })}`,
      );
  };
  // Every effect belongs to a logged try, and no try has two.
  check(started.length <= logged.length, "started more often than tried");
  check(new Set(started).size === started.length, "has one process twice");
  check(done <= count("well") + count("killed"), "is done more often than it ended well");
  const isGood = kind === "works" || kind === "flaky";
  if (task.state === "successful") {
    check(isGood, "is successful");
    check(done >= 1 && task.resultCode === 0, "is not done");
    // Without a loss, once is once.
    if (logged.length === 1) check(started.length === 1 && done === 1, "is not done once");
    if (kind === "flaky") check(logged.length >= 2, "was not tried again");
    return faults;
  }
  check(task.state === "failed", "has no end");
  // A task that would work fails only if its tries were killed, or had no processor in time.
  if (isGood) check(/SIGKILL|worker|took too long/.test(task.cause ?? ""), "failed without a loss");
  if (kind === "fails") check([3, 137].includes(task.resultCode ?? -1), "has another code");
  if (kind === "dies") check(task.resultCode === 137, "has another code");
  if (kind === "hangs")
    check(/took too long|SIGKILL|ended its/.test(task.cause ?? ""), "has another cause");
  check(count("badly") + count("killed") >= tries, "had fewer tries");
  return faults;
}
