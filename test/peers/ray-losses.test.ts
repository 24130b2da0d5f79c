import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { findRay, installRay } from "../../scripts/ray.ts";
import { type Random, seededRandom } from "../../src/foundation/random.ts";
import {
  killQuietly,
  pause,
  runSluice,
  startSluice,
  stillRunning,
} from "../chaos/sluice-process.ts";
import { commandOf, descendants, RayCluster, until, writeRayJob } from "../ray-cluster.ts";
import { scratchFolder } from "../run/whole-run.ts";

installRay();
const { missing } = findRay();
const moments = Number(process.env.TEST_RAY_MOMENTS ?? 10);
const seed = Number(process.env.TEST_RAY_SEED ?? Date.now() % 2 ** 31);
const lostRows = 500;

let cluster: RayCluster;

beforeAll(async () => {
  if (missing !== undefined) return;
  // The head takes no worker: it is the one node that a cluster cannot lose.
  cluster = await RayCluster.start([{ cpus: 0 }, { cpus: 4 }, { cpus: 4 }]);
});
afterAll(() => cluster?.stop());

interface Event {
  time: string;
  type: string;
  pid?: number;
  worker?: string;
  task?: number;
  outcome?: string;
}

/** A run that has begun, with two or more workers at work. */
async function begun(rows = lostRows) {
  const folder = scratchFolder();
  const silent = "workers.maxSilenceMs=3000";
  writeRayJob(folder, rows, cluster.address);
  const command = ["run", "job.yaml", "--set", silent];
  const call = (...parameters: string[]) => runSluice(parameters, folder);
  const running = startSluice(command, folder);
  const events = () => {
    try {
      const text = readFileSync(join(folder, "out/_sluice/events/000001.jsonl"), "utf8");
      const lines = text.split("\n").slice(0, -1);
      return lines.map((line) => JSON.parse(line) as Event);
    } catch {
      return [];
    }
  };
  const workers = async () =>
    JSON.parse((await call("status", "out", "--json", "--workers")).stdout).workerList as {
      pid: number;
      scheduler: string;
    }[];
  const begin = () => events().filter(({ type }) => type === "worker-start").length >= 3;
  await until(() => begin() || running.hasEnded(), "three workers");
  if (running.hasEnded()) throw new Error((await running.ended).stderr);
  return { folder, rows, command, call, running, events, workers };
}

type Begun = Awaited<ReturnType<typeof begun>>;

/** The parent of a process. */
const parentOf = (pid: number) =>
  Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);

/** What is lost: a worker with what stands above it, or a process of the coordinator's machine. */
interface Victim {
  worker: string;
  workerPid: number;
  actorPid: number;
  node: number;
  bridgePid: number;
}

async function victimOf(run: Begun, random: Random): Promise<Victim> {
  const all = await run.workers();
  const chosen = all[Math.floor(random.next() * all.length)]!;
  // Above a worker: the shell of its group, and the actor.
  const actorPid = parentOf(parentOf(chosen.pid));
  const address = chosen.scheduler.split(" on ")[1]!;
  const bridgePid = descendants(run.running.pid).find(
    (pid) =>
      /python\S* -m sluice_ray/.test(commandOf(pid)) && !commandOf(pid).startsWith("/bin/sh"),
  )!;
  const node = Number(address.split(".")[3]) - 2;
  const worker = run.events().find(({ pid }) => pid === chosen.pid)!.worker!;
  return { worker, workerPid: chosen.pid, actorPid, node, bridgePid };
}

interface Loss {
  name: string;
  strike(victim: Victim, run: Begun): void | Promise<void>;
  /** Puts the cluster in order for the next one. */
  mend?(victim: Victim): Promise<void>;
  /** The call ends, and the same command continues. */
  endsCall?: boolean;
  /** Nothing is lost. */
  isHarmless?: boolean;
}

/** A new node in the place of a lost one, once the head counts that one as dead. */
const freshNode = async ({ node }: Victim) => {
  const address = cluster.addressOf(node);
  cluster.signalNode(node, "SIGKILL");
  const isGone = async () => (await cluster.nodes()).every(({ node_ip: ip }) => ip !== address);
  await until(isGone, "the end of the node", 120_000);
  await cluster.startNode(node);
  await cluster.untilAlive(3);
};

const losses: Loss[] = [
  { name: "worker killed", strike: ({ workerPid }) => killQuietly(workerPid, "SIGKILL") },
  { name: "worker stopped", strike: ({ workerPid }) => killQuietly(workerPid, "SIGSTOP") },
  { name: "actor killed", strike: ({ actorPid }) => killQuietly(actorPid, "SIGKILL") },
  { name: "actor stopped", strike: ({ actorPid }) => killQuietly(actorPid, "SIGSTOP") },
  {
    name: "raylet killed",
    strike: ({ node }) => killQuietly(cluster.rayletOf(node)!, "SIGKILL"),
    mend: freshNode,
  },
  {
    name: "node killed",
    strike: ({ node }) => cluster.signalNode(node, "SIGKILL"),
    mend: freshNode,
  },
  {
    name: "node stopped",
    strike: ({ node }) => cluster.signalNode(node, "SIGSTOP"),
    mend: freshNode,
  },
  {
    name: "bridge killed",
    strike: ({ bridgePid }) => killQuietly(bridgePid, "SIGKILL"),
    endsCall: true,
  },
  {
    name: "bridge stopped for 6 s",
    async strike({ bridgePid }) {
      killQuietly(bridgePid, "SIGSTOP");
      await pause(6000);
      killQuietly(bridgePid, "SIGCONT");
    },
    isHarmless: true,
  },
  {
    name: "coordinator killed",
    strike: (_, { running }) => running.kill("SIGKILL"),
    endsCall: true,
  },
  {
    name: "coordinator stopped for 6 s",
    async strike(_, { running }) {
      running.kill("SIGSTOP");
      await pause(6000);
      running.kill("SIGCONT");
    },
    isHarmless: true,
  },
];

/** Seconds from a moment to what followed it; undefined if that did not come. */
function recovery(events: readonly Event[], victim: Victim, atMs: number) {
  const after = (event: Event | undefined) => event && (Date.parse(event.time) - atMs) / 1000;
  const open = new Set<number>();
  for (const { type, worker, task, time } of events) {
    if (worker !== victim.worker || Date.parse(time) > atMs) continue;
    if (type === "task-start") open.add(task!);
    if (type === "task-end") open.delete(task!);
  }
  const later = events.filter(({ time }) => Date.parse(time) > atMs);
  const again = later.filter(
    ({ type, worker, task }) =>
      type === "task-start" && worker !== victim.worker && open.has(task!),
  );
  return {
    known: after(
      later.find(({ type, worker }) => type === "worker-end" && worker === victim.worker),
    ),
    again: open.size === 0 ? undefined : after(again[0]),
    refilled: after(later.find(({ type }) => type === "worker-start")),
  };
}

const shown = (seconds: number | undefined) =>
  seconds === undefined ? "    –" : `${seconds.toFixed(1).padStart(4)}s`;

/** Every row stands once in the results, and the run is proven. */
async function expectWhole({ call, rows }: Begun): Promise<void> {
  const { stdout } = await call("results", "out");
  const ids = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line).id);
  expect(ids).toEqual(Array.from({ length: rows }, (_, row) => `r${row}`));
  expect(await call("verify", "out")).toMatchObject({ code: 0 });
}

async function sufferOnce(loss: Loss, random: Random) {
  const run = await begun();
  await pause(random.next() * 2000);
  const victim = await victimOf(run, random);
  const atMs = Date.now();
  await loss.strike(victim, run);
  const all = (await run.workers()).map(({ pid }) => pid);
  let ended = await run.running.ended;
  let gone: number | undefined;
  if (loss.endsCall) {
    expect(await stillRunning([...all, victim.actorPid, victim.bridgePid], 10_000)).toEqual([]);
    gone = (Date.now() - atMs) / 1000;
    if (ended.signal === null) {
      expect(ended, ended.stderr).toMatchObject({ code: 75 });
      expect(ended.stderr).toContain("error RAY_BRIDGE_DIED");
    }
    ended = await runSluice(run.command, run.folder);
  }
  expect(ended, `${loss.name}: ${ended.stderr}`).toMatchObject({ code: 0 });
  await expectWhole(run);
  const times = recovery(run.events(), victim, atMs);
  const { known, again, refilled } = times;
  const said =
    gone === undefined
      ? `known ${shown(known)}, rows again ${shown(again)}, refilled ${shown(refilled)}`
      : `all of it gone ${shown(gone)}`;
  console.log(`${loss.name.padEnd(28)} ${said}`);
  await loss.mend?.(victim);
  return { ...times, gone };
}

/** The median and the longest of some times. */
function spread(seconds: readonly (number | undefined)[]): string {
  const known = seconds.filter((it) => it !== undefined).sort((a, b) => a - b);
  const [middle, longest] = [known[known.length >> 1], known.at(-1)];
  return `${shown(middle)} to ${shown(longest)}`;
}

describe("what is lost on a Ray cluster", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it(`${moments} losses at random moments cost no row, under seed ${seed}`, async () => {
    console.log(`TEST_RAY_SEED=${seed}`);
    const random = seededRandom(seed);
    const wanted = process.env.TEST_RAY_LOSS;
    const kinds = losses.filter(({ name }) => wanted === undefined || name.startsWith(wanted));
    const all = new Map<Loss, Awaited<ReturnType<typeof sufferOnce>>[]>();
    for (let moment = 0; moment < moments; moment++) {
      const loss = kinds[moment % kinds.length]!;
      all.set(loss, [...(all.get(loss) ?? []), await sufferOnce(loss, random)]);
    }
    for (const [{ name, endsCall }, times] of all) {
      const of = (key: "known" | "again" | "refilled" | "gone") =>
        spread(times.map((it) => it[key]));
      const said = endsCall
        ? `all of it gone ${of("gone")}`
        : `known ${of("known")}, rows again ${of("again")}, refilled ${of("refilled")}`;
      console.log(`median and longest of ${times.length}, ${name}: ${said}`);
    }
  }, 3_600_000);

  it("a node that will be taken away is left in time", async () => {
    // Ray's command takes a while.
    const run = await begun(3 * lostRows);
    const victim = await victimOf(run, seededRandom(seed));
    const atMs = Date.now();
    await cluster.drain(victim.node, 30);
    const ended = await run.running.ended;
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(ended.stderr).toContain("leaves, and others take its tasks: Ray takes node");
    await expectWhole(run);
    const { known, again } = recovery(run.events(), victim, atMs);
    console.log(`node drained: worker gone ${shown(known)}, rows again ${shown(again)}`);
    await freshNode(victim);
  });
});
