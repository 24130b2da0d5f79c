import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { ProgramModelOptions } from "./options.ts";

/** A row as a command to run. */
export interface ProgramTask {
  /** Place of the row in the input, from 0. */
  row: number;
  /** Index of the task: a number, or any name that the row gives. */
  index: string;
  /** A stable id, if the row has one. */
  id: string;
  /** Program and first arguments; empty if an image has its own. */
  cmds: readonly string[];
  args: readonly string[];
  /** Variables of this task alone. */
  environment: Readonly<Record<string, string>>;
}

/**
 * The task of a row, whose fields are those of a line of a fleet: `cmds` and `args` take the place
 * of the job's, `env` adds variables, `idx` names the task.
 *
 * @throws SluiceError `COMMAND_INVALID` for a field of another type, or without any command.
 * @example
 * programTask({ cmds: ["echo"], args: ["a"], idx: "first" }, 0, options).args; // ["a"]
 */
export function programTask(
  row: JsonObject,
  at: number,
  options: ProgramModelOptions,
): ProgramTask {
  const { cmds = options.command, args = options.args, env = {}, idx = at, id } = row;
  const words = { cmds: texts(cmds, "cmds"), args: texts(args, "args") };
  if (words.cmds.length + words.args.length === 0 && options.image === undefined) {
    throw new SluiceError("COMMAND_INVALID", "there is no command", { field: "cmds" });
  }
  if (!isVariables(env)) throw mustBe("env", "an object of texts");
  // A number of the input may be an object that keeps its text.
  const index = typeof idx === "object" ? JSON.stringify(idx) : String(idx);
  if (index.trim() === "") throw mustBe("idx", "a text or a number");
  return {
    ...{ row: at, index, ...words, environment: env },
    id: typeof id === "string" ? id : index,
  };
}

function texts(value: unknown, field: string): readonly string[] {
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value;
  throw mustBe(field, "a list of texts");
}

function isVariables(value: unknown): value is Readonly<Record<string, string>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([name, text]) => typeof text === "string" && /^[^\s=]+$/.test(name),
  );
}

const mustBe = (field: string, what: string) =>
  new SluiceError("COMMAND_INVALID", `must be ${what}`, { field });

/**
 * The variables that tell a program its task, by the names that programs for Code Engine, Slurm
 * arrays and indexed jobs of Kubernetes read, and the task's own. Where a number is needed, a task
 * whose index is none has its place among the rows.
 */
export function taskVariables(
  { row, index, id, environment }: ProgramTask,
  { name, array }: ProgramModelOptions,
): Record<string, string> {
  const number = /^\d{1,15}$/.test(index) ? index : String(row);
  return {
    SLUICE_TASK_INDEX: index,
    SLUICE_TASK_ID: id,
    CE_TASK_INDEX: index,
    CE_TASK_ID: id,
    CE_FLEET_NAME: name,
    JOB_INDEX: number,
    JOB_COMPLETION_INDEX: number,
    SLURM_ARRAY_TASK_ID: number,
    ...(array && {
      SLUICE_TASK_COUNT: String(array.count),
      JOB_ARRAY_SIZE: String(array.count),
      SLURM_ARRAY_TASK_COUNT: String(array.count),
      SLURM_ARRAY_TASK_MIN: String(array.min),
      SLURM_ARRAY_TASK_MAX: String(array.max),
    }),
    ...environment,
  };
}
