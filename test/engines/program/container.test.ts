import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { programDescription } from "../../../src/engines/program/description.ts";
import { openProgram } from "../../../src/engines/program/engine.ts";
import { programModel } from "../../../src/engines/program/options.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { stillRunning } from "../../chaos/sluice-process.ts";
import { engineContext, rejectionOf } from "../engine-context.ts";

/** Stands in for podman, which few machines of tests have: runs the command without a container. */
const standIn = `#!/bin/sh
FOLDER=$(dirname "$0")
echo "$@" >> $FOLDER/calls
case $1 in
info) exit 0 ;;
rm) [ ! -e "$FOLDER/pid" ] || kill -9 "-$(cat $FOLDER/pid)" 2> /dev/null; exit 0 ;;
esac
shift
while [ "$1" != example/tool:1 ]; do
  case $1 in
  --name | --env | --volume) shift ;;
  --entrypoint) entry=$2; shift ;;
  esac
  shift
done
shift
exec setsid --wait sh -c 'echo $$ > "$0"; exec "$@"' $FOLDER/pid $entry "$@"`;

function withPodman(options: object) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-podman-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  writeFileSync(join(folder, "podman"), standIn, { mode: 0o755 });
  const model = programModel.parse({
    ...{ engine: "program", image: "example/tool:1", variables: ["OWN"], ...options },
  });
  const environment = { PATH: `${folder}:${process.env.PATH}`, OWN: "mine", OTHER: "x" };
  return {
    folder,
    calls: () => readFileSync(join(folder, "calls"), "utf8").trim().split("\n"),
    open: (run = "run") => {
      const programPlaces = { run, begin: async () => nothingKept };
      return openProgram(model, engineContext({ environment, programPlaces }));
    },
  };
}

const nothingKept = {
  ...{ worker: null, mounts: [], log: async () => {}, close: async () => {} },
  succeed: async (result: JsonObject) => result,
};

const request = (cmds: string[], args: string[] = []) => ({
  row: { cmds, args, id: "task-1" },
  parameters: { ...greedyParameters, maxNewTokens: 1, seed: 1 },
  origin: { index: 0, promptName: "row" },
});
const never = new AbortController().signal;

describe("a fleet with an image", () => {
  it("runs a program in a container, which gets what is its own", async () => {
    const { open, calls } = withPodman({});
    const engine = await open();
    expect(engine.choices).toEqual({ container: "podman" });
    const { answers } = await engine.infer(request(["true"], ["an argument"]), never);
    expect(answers[0]!.value).toMatchObject({ exitCode: 0 });
    const [, removed, run = ""] = calls();
    expect(removed).toBe("rm --force sluice-run-0");
    expect(run).toMatch(/^run --rm --init --name sluice-run-0 --env OWN --env SLUICE_TASK_INDEX /);
    expect(run).toMatch(/ --entrypoint true example\/tool:1 an argument$/);
    // Neither values nor other variables are on the command line.
    expect(run).not.toMatch(/mine|OTHER/);
    await engine.close();
  });

  it("leaves the containers of other runs alone, whose rows have the same ids", async () => {
    const { open, calls } = withPodman({});
    for (const run of ["one", "other"]) {
      const engine = await open(run);
      await engine.infer(request(["true"]), never);
      await engine.close();
    }
    const removed = calls().filter((call) => call.startsWith("rm "));
    expect(new Set(removed)).toEqual(
      new Set(["rm --force sluice-one-0", "rm --force sluice-other-0"]),
    );
  });

  it("removes the container of a program that takes too long", async () => {
    const { open, calls, folder } = withPodman({ timeoutMs: 300 });
    const engine = await open();
    // It is not in the process group of its starter, as a container is not.
    const text = "trap '' TERM; sleep 600; sleep 600";
    const late = await rejectionOf(engine.infer(request(["sh", "-c", text]), never));
    expect(late).toMatchObject({ code: "PROGRAM_TIMED_OUT" });
    expect(calls().at(-1)).toBe("rm --force sluice-run-0");
    const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
    expect(await stillRunning([pid], 5000)).toEqual([]);
    await engine.close();
  });

  it("runs programs as they are where the worker is in that image already", async () => {
    const model = programModel.parse({ engine: "program", image: "example/tool:1" });
    const environment = { PATH: process.env.PATH, SLUICE_INSIDE_IMAGE: "example/tool:1" };
    const engine = await openProgram(model, engineContext({ environment }));
    const { answers } = await engine.infer(request(["true"]), never);
    expect(answers[0]!.value).toMatchObject({ exitCode: 0 });
    await engine.close();
  });

  it("is refused where no program runs containers", async () => {
    const model = programModel.parse({ engine: "program", image: "example/tool:1" });
    const context = engineContext({ environment: { PATH: "/nowhere" } });
    await expect(programDescription.check!(model, context as never)).rejects.toMatchObject({
      ...{ code: "PROGRAM_MISSING", hint: expect.stringContaining("podman: not on PATH") },
    });
  });
});
