import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plan } from "../src/run/plan/plan.ts";
import { shortRows } from "./loads.ts";
import { runProgram, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { commitAllButLast, forgetLast, planOneRowTasks } from "./resume-state.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

/** Counted up when a run that is interrupted leaves other files behind. */
const stateVersion = 2;

/** How long a resumed run took: until it knew what is left, and to seal after the last task. */
interface Resumed {
  scan: number;
  seal: number;
}

/**
 * A run of many tasks, all but the last committed, is called again: from its start until it says
 * how much was done already, and what the seal took. The baseline lists the same commits and parses
 * each of them.
 */
export async function benchResume(setting: BenchSetting): Promise<BenchResult[]> {
  const tasks = setting.isSmall ? 2000 : 100_000;
  const input = shortRows(tasks);
  const directory = join(dataDirectory, `resume-${tasks}-${stateVersion}`);
  const plan = await prepared(input, directory);
  const plain = join(import.meta.dirname, "resume-baseline.ts");
  const figures = await inTurn("resume", setting.rounds, {
    baseline: async () => {
      return (await runProgram([plain, join(directory, "_sluice/commits")])).seconds;
    },
    sluice: async () => {
      forgetLast(plan, directory);
      settleDisk();
      return resume(setting, input, directory);
    },
  });
  const baseline = median(figures.baseline);
  const compare = (name: string, value: number, atMost?: number): BenchResult => ({
    ...{ name: `${tasks} tasks, ${name}`, value, unit: "s", baseline, ratio: baseline / value },
    ...(atMost === undefined ? {} : { atMost }),
  });
  return [
    compare("resume scan", median(figures.sluice.map(({ scan }) => scan)), 5),
    compare("seal", median(figures.sluice.map(({ seal }) => seal))),
  ];
}

async function prepared(input: string, directory: string): Promise<Plan> {
  const planFile = join(directory, "_sluice/plan.json");
  const ready = `${directory}.ready`;
  if (!existsSync(ready)) {
    console.error("resume: making the state of an interrupted run, once");
    rmSync(directory, { recursive: true, force: true });
    commitAllButLast(await planOneRowTasks(input, directory), input, directory);
    writeFileSync(ready, "");
  }
  return JSON.parse(readFileSync(planFile, "utf8")) as Plan;
}

async function resume(setting: BenchSetting, input: string, directory: string): Promise<Resumed> {
  const at: Record<string, number> = {};
  const onLine = (line: string, seconds: number) => {
    const type = /"type":"([a-z-]+)"/.exec(line)?.[1];
    if (type) at[type] = seconds;
  };
  const job = ["--input", input, "--model", "fake", "--prompt", "{{ text }}"];
  const rest = ["--output", directory, "--shard.rows", "1", "--set", "keepJournals=true"];
  const args = ["run", ...job, ...rest, "--seed", "1", "--json"];
  await runSluice(setting, args, { onLine });
  return { scan: at["run-start"]!, seal: at["run-seal"]! - at["worker-end"]! };
}
