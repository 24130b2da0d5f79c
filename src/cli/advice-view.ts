import type { Advice, AdviceOption } from "../run/advise/advise.ts";
import type { Interval } from "../run/bill/interval.ts";
import { duration } from "../terminal/progress-view.ts";
import { counted, dollars, grouped } from "../terminal/quantities.ts";
import { right, table } from "../terminal/table.ts";

/** Advice as lines for people: a table, the proposal, and the objections. */
export function adviceLines(advice: Advice): string[] {
  const { proposed, options, meetsDeadline, warnings } = advice;
  const { workers, shards, rowsPerShard, shardSeconds, seconds, usd } = proposed;
  const titles = ["workers", "tasks", "rows each", "a task", "time"];
  const columns = ["", ...[...titles, ...(usd ? ["machines"] : []), "lost"].map(right)];
  const cut = `${counted(shards, "task")} of ${counted(rowsPerShard, "row")}`;
  const end = meetsDeadline === false ? ", which is too late" : "";
  return [
    ...table(
      columns,
      options.map((option) => cellsOf(option, option.workers === workers)),
    ),
    "",
    `proposed  ${counted(workers, "worker")}, ${cut}: ${span(shardSeconds)} each`,
    `time      about ${span(seconds.estimated)}, up to ${span(seconds.high)}${end}`,
    ...(usd ? [`machines  about ${dollars(usd.estimated)} (${bounds(usd)})`] : []),
    `start     ${span(advice.startSeconds)} until a machine processes its first row`,
    `preempted ${lossText(advice)}`,
    `flags     --shard.rows ${rowsPerShard} --workers.max ${workers}`,
    ...warnings.map((warning) => `warning: ${warning}`),
  ];
}

function cellsOf(option: AdviceOption, isProposed: boolean): string[] {
  const { workers, shards, rowsPerShard, shardSeconds, seconds, usd, lostShare } = option;
  return [
    isProposed ? "→" : "",
    grouped(workers),
    grouped(shards),
    grouped(rowsPerShard),
    span(shardSeconds),
    span(seconds.estimated),
    ...(usd ? [dollars(usd.estimated)] : []),
    `${(lostShare * 100).toFixed(1)} %`,
  ];
}

function bounds({ low, high }: Interval): string {
  return `${dollars(low)} to ${dollars(high)}`;
}

function span(seconds: number): string {
  return seconds < 1 ? "<1s" : duration(seconds);
}

function lossText({ lostSecondsPerPreemption, lostSecondsWithoutJournal }: Advice): string {
  const kept = `costs ${span(lostSecondsPerPreemption)} of work`;
  return `${kept}, where the journal is lost as well ${span(lostSecondsWithoutJournal)}`;
}
