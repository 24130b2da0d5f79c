import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { commandLines } from "../../../src/run/fleet/commands.ts";
import { addToFleet, createFleet, fleetsAt, openFleet } from "../../../src/run/fleet/fleet.ts";
import { fleetSchema } from "../../../src/run/fleet/fleet-schema.ts";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import { openOrPlan } from "../../../src/run/plan/open-run.ts";
import { dependenciesOf, scratchFolder } from "../whole-run.ts";

function fleetsIn(folder: string) {
  const dependencies = dependenciesOf();
  const root = join(folder, "fleets");
  const planned: JobSpec[] = [];
  const request = (spec: object, job = {}) => ({
    ...{ root, spec: fleetSchema.parse(spec), stores: {}, job, workingDirectory: folder },
    async plan(given: JobSpec) {
      planned.push(given);
      if (given.backend !== "local") return;
      await openOrPlan(given, dependencies, {
        ...{ overwrite: false, fork: false, workersFor: () => 1, onEvent() {} },
      });
    },
  });
  return {
    ...{ dependencies, root, planned, request },
    create: (spec: object, job = {}) => createFleet(request(spec, job), dependencies),
  };
}

describe("a fleet", () => {
  it("is an ordinary job: a command a row, a row a task", async () => {
    const folder = scratchFolder();
    const { create, planned } = fleetsIn(folder);
    const fleet = await create({ name: "f", count: 3, command: ["ls"], cpu: 2, retries: 1 });
    expect(planned).toMatchObject([
      {
        ...{ name: "f", shard: { rows: 1 }, retries: { maxAttempts: 2 } },
        workers: { max: 10, cpu: 2 },
        model: { engine: "program", command: ["ls"], array: { count: 3, min: 0, max: 2 } },
        output: { path: join(folder, "fleets/f/runs/000001"), field: "result" },
      },
    ]);
    const [batch] = fleet.batches;
    const rows = readFileSync(join(folder, "fleets/f", batch!.commands), "utf8")
      .trim()
      .split("\n");
    expect(rows.map((row) => JSON.parse(row))).toEqual([
      { idx: "0", id: expect.any(String) },
      { idx: "1", id: expect.any(String) },
      { idx: "2", id: expect.any(String) },
    ]);
  });

  it("is found by name and by id", async () => {
    const { create, root, dependencies } = fleetsIn(scratchFolder());
    const { record } = await create({ count: 1, command: "ls" });
    expect(record.name).toBe(`fleet-${record.id.slice(0, 8)}-1`);
    const found = [
      await openFleet(root, { id: record.id }, dependencies),
      await openFleet(root, { name: record.name }, dependencies),
    ];
    for await (const fleet of fleetsAt(root, dependencies)) found.push(fleet);
    expect(found.map((fleet) => fleet.record)).toEqual([record, record, record]);
    await expect(openFleet(root, { id: "x" }, dependencies)).rejects.toMatchObject({
      ...{ code: "NOT_A_RUN", hint: expect.stringContaining("sluice fleet list") },
    });
  });

  it("is left alone by a call for its name, or for a place in use, that fails", async () => {
    const folder = scratchFolder();
    const { create, root, dependencies } = fleetsIn(folder);
    const { record } = await create({ name: "f", count: 1, command: "ls" });
    await expect(create({ name: "f", count: 1 })).rejects.toMatchObject({
      code: expect.any(String),
    });
    expect((await openFleet(root, { name: "f" }, dependencies)).record).toEqual(record);
    const note = join(root, "other/note.txt");
    mkdirSync(dirname(note), { recursive: true });
    writeFileSync(note, "of somebody else");
    const occupied = create({ name: "other", count: 1, command: "ls" });
    await expect(occupied).rejects.toMatchObject({ code: "OUTPUT_OCCUPIED" });
    expect(readFileSync(note, "utf8")).toBe("of somebody else");
  });

  it("has no batch that could not be planned", async () => {
    const { create, request, root, dependencies } = fleetsIn(scratchFolder());
    const fleet = await create({ name: "f", count: 2, command: "ls" });
    const failing = {
      ...request({ count: 3 }),
      plan: async () => {
        throw new Error("the scheduler is away");
      },
    };
    await expect(addToFleet(fleet, failing, dependencies)).rejects.toThrow("is away");
    const { batches } = await addToFleet(fleet, request({ count: 1 }), dependencies);
    expect(batches.map(({ number, tasks }) => [number, tasks])).toEqual([
      [1, 2],
      [2, 1],
    ]);
    expect((await openFleet(root, { name: "f" }, dependencies)).batches).toEqual(batches);
  });

  it("takes an index that no number can hold for a name", async () => {
    const folder = scratchFolder();
    const { create, planned } = fleetsIn(folder);
    writeFileSync(join(folder, "tasks.jsonl"), '{"idx": 7}\n{"idx": "99999999999999999999"}\n');
    await create({ name: "f", tasksFromLocalFile: "tasks.jsonl", command: "ls" });
    expect(planned).toMatchObject([{ model: { array: { count: 2, min: 1, max: 7 } } }]);
  });

  it("gets each index once, though two calls add tasks at the same moment", async () => {
    const { create, request, planned, dependencies } = fleetsIn(scratchFolder());
    const fleet = await create({ name: "f", count: 2, command: "ls" });
    const add = () => addToFleet(fleet, request({ count: 3 }), dependencies);
    const grown = await Promise.all([add(), add()]);
    expect(Math.max(...grown.map(({ batches }) => batches.length))).toBe(3);
    expect(planned.map(({ model }) => "array" in model && model.array)).toEqual([
      { count: 2, min: 0, max: 1 },
      { count: 5, min: 0, max: 4 },
      { count: 8, min: 0, max: 7 },
    ]);
  });
});

describe("a line of commands that cannot be used", () => {
  it.each<[line: string, field?: string]>([
    ["{"],
    ["[]"],
    ['{"cmd": ["ls"]}', "cmd"],
    ['{"cmds": "ls"}', "cmds"],
    ['{"cmds": []}', "cmds"],
    ['{"cmds": ["ls"], "args": ["a\\u0000"]}', "args"],
    ['{"cmds": ["ls"], "env": {"A": 1}}', "env"],
    ['{"cmds": ["ls"], "env": {"API_KEY": "sk-0123456789abcdef0123"}}', "env.API_KEY"],
    ['{"cmds": ["ls"], "idx": -1}', "idx"],
  ])("is refused with its place: %s", (line, field) => {
    const read = () => [...commandLines(`\n${line}`, "commands.jsonl")];
    const place = { file: "commands.jsonl", line: 2, ...(field && { field }) };
    expect(read).toThrow(expect.objectContaining({ code: "COMMAND_INVALID", place }));
  });
});
