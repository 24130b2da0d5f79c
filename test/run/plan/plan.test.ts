import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { planPath } from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import {
  assertPlanFits,
  eachTask,
  type Plan,
  readOptionsOf,
  readPlan,
  storeTasks,
  type Task,
  TaskTable,
} from "../../../src/run/plan/plan.ts";
import { changedStorage, errorOf, jobOf, pathsOf, plannedRun, rowsOf } from "../run-fixture.ts";

function tasks(count: number, textOf = (n: number) => "x".repeat(n % 7)): Task[] {
  return Array.from({ length: count }, (_, task) => {
    const slice = { format: "jsonl", start: 0, end: 1, rows: 2, firstLine: 1, sha256: "0" };
    return { task, firstRow: task * 2, rows: 2, slices: [{ file: textOf(task), ...slice }] };
  });
}

async function tableOf(all: Task[]) {
  const storage = memoryStorage();
  const { count, file, index, rows } = await storeTasks(storage, 1, "a", all);
  const plan = { tasks: { count, file, index } } as Plan;
  return { storage, plan, file, index, rows, table: new TaskTable(storage, plan) };
}

describe("storeTasks", () => {
  it("names the file by its content and leaves nothing else", async () => {
    const { storage, file, index } = await tableOf(tasks(5));
    expect(await pathsOf(storage)).toEqual([file.path, index.path]);
    expect(file.path).toContain(file.sha256.slice(0, 16));
    const stored = await storage.read(file.path);
    expect([sha256Hex(stored), stored.length]).toEqual([file.sha256, file.bytes]);
    const table = await storage.read(index.path);
    expect([sha256Hex(table), table.length]).toEqual([index.sha256, index.bytes]);
  });

  it("counts the rows that are asked, not those of the slices", async () => {
    const [first, second] = tasks(2);
    const { rows } = await tableOf([first!, { ...second!, only: "3", onlyRows: 1 }]);
    expect(rows).toBe(3);
  });

  it("leaves nothing where the tasks cannot be made", async () => {
    const storage = memoryStorage();
    async function* broken(): AsyncGenerator<Task> {
      yield* tasks(1);
      throw new Error("the input went away");
    }
    await expect(storeTasks(storage, 1, "a", broken())).rejects.toThrow("went away");
    expect(await pathsOf(storage)).toEqual([]);
  });
});

describe("TaskTable", () => {
  it("finds any task, in any order, also with names of several bytes a character", async () => {
    const all = tasks(300, (n) => "ü".repeat(n % 5));
    const { table } = await tableOf(all);
    for (const task of [299, 0, 7, 150, 8]) expect(await table.task(task)).toEqual(all[task]);
  });

  it("streams all tasks in order, over many chunks", async () => {
    const all = tasks(40, (n) => `${n} ${"é".repeat(limits.readChunkBytes / 20)}`);
    const { storage, plan } = await tableOf(all);
    expect(await Array.fromAsync(eachTask(storage, plan))).toEqual(all);
  });

  it("refuses a task that is not there", async () => {
    const { table } = await tableOf(tasks(3));
    expect((await errorOf(table.task(3))).code).toBe("USAGE");
    expect((await errorOf(table.task(-1))).code).toBe("USAGE");
  });

  it("opens its files again for the next task if they could not be opened", async () => {
    const all = tasks(3);
    const { storage, plan } = await tableOf(all);
    let failures = 1;
    const shaky = changedStorage(storage, (inner) => ({
      read: (path) =>
        failures-- > 0 ? Promise.reject(new SluiceError("STORE_FAILED")) : inner.read(path),
    }));
    const table = new TaskTable(shaky, plan);
    expect((await errorOf(table.task(0))).code).toBe("STORE_FAILED");
    expect(await table.task(1)).toEqual(all[1]);
    await table.close();
    failures = 1;
    const failed = errorOf(table.task(2));
    await table.close();
    expect((await failed).code).toBe("STORE_FAILED");
  });

  it("can be used again after it was closed", async () => {
    const { table } = await tableOf(tasks(3));
    await table.task(0);
    await table.close();
    expect((await table.task(2)).task).toBe(2);
  });
});

describe("plan", () => {
  it("is read back as it was written", async () => {
    const { plan, storage } = await plannedRun(rowsOf(3));
    await storage.replace(planPath, recordBytes(plan));
    expect(await readPlan(storage)).toEqual(JSON.parse(JSON.stringify(plan)));
  });

  it("is refused where there is none, and where it is of another format", async () => {
    const storage = memoryStorage();
    expect((await errorOf(readPlan(storage))).code).toBe("NOT_A_RUN");
    await storage.replace(planPath, recordBytes({ format: 2 }));
    expect((await errorOf(readPlan(storage))).message).toContain("plan format 2");
  });

  it("may have a megabyte and not more", async () => {
    const { plan } = await plannedRun(rowsOf(1));
    const withPrompt = (length: number): Plan => ({
      ...plan,
      job: { ...plan.job, name: "n".repeat(length) },
    });
    const own = recordBytes(withPrompt(0)).length;
    expect(() => assertPlanFits(withPrompt(limits.maxPlanBytes - own))).not.toThrow();
    expect(() => assertPlanFits(withPrompt(limits.maxPlanBytes - own + 1))).toThrow(
      expect.objectContaining({ code: "PLAN_TOO_LARGE" }),
    );
  });

  it("takes the longest line of all inputs", () => {
    const job = jobOf({
      input: [
        { path: "/a", maxLineBytes: 10 },
        { path: "/b", maxLineBytes: 30 },
        { path: "/c", maxLineBytes: 20 },
      ],
    });
    expect(readOptionsOf(job).maxLineBytes).toBe(30);
  });
});
