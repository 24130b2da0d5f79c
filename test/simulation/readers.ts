import { asSluiceError } from "../../src/foundation/errors.ts";
import { runStorage } from "../../src/run/directory/run-storage.ts";
import { verifyAndMend } from "../../src/run/seal/verify.ts";
import { resultChunks } from "../../src/run/status/results.ts";
import { ends } from "./actor.ts";
import { answerOf } from "./check.ts";
import type { World } from "./world.ts";

/** Reads the results while others work on the run, and checks what it gets. */
export function startReader(world: World): void {
  const actor = world.newActor("d", "reader");
  const { location, directory } = world;
  const { openStorage } = world.dependenciesOf(actor);
  const read = async () => {
    const { runId } = await world.standing();
    if (runId === undefined) return;
    world.note(`reader ${actor.pid}`);
    const { removals, turns } = directory;
    let problem: string | undefined;
    try {
      const storage = runStorage(openStorage(location.directory));
      const outside = openStorage(location.outside);
      const { clock } = actor.process;
      const chunks = resultChunks(storage, outside, { failed: false, follow: false, clock });
      const bytes: Uint8Array[] = [];
      for await (const chunk of chunks) bytes.push(chunk);
      problem = linesProblem(world, Buffer.concat(bytes).toString(), runId);
    } catch (error) {
      problem = `it failed: ${asSluiceError(error).message}`;
    }
    // Nothing can be said of a run that is being replaced.
    if (!problem || directory.removals !== removals) return;
    // In a store a part that a retry publishes anew ends its reading, and says so.
    if (directory.turns !== turns && problem.includes("replaced while it was read")) return;
    world.violate(`reader ${actor.pid}: ${problem}`);
  };
  void ends(actor, read());
}

function linesProblem(world: World, text: string, runId: string): string | undefined {
  let last = -1;
  for (const line of text.split("\n").slice(0, -1)) {
    const found = answerOf(world, line);
    if (!found) return `not a result: ${line}`;
    const asks = found.asks.map((number) => world.ledger.asks[number]);
    const rows = new Set(asks.map((ask) => ask?.row));
    const [row = -1] = rows;
    if (rows.size !== 1) return `an answer to another row: ${line}`;
    if (row <= last) return `row ${row} stands behind row ${last}`;
    const prefix = `${runId.toLowerCase()}/`;
    if (!asks.every((ask) => ask?.serves.startsWith(prefix))) return `of another run: ${line}`;
    last = row;
  }
  return undefined;
}

/**
 * Verifies a run while others clean it: nothing may be missed. One that may be paused or killed
 * while it mends must do no harm when it wakes.
 */
export function startVerifier(world: World, role: "reader" | "command"): void {
  const actor = world.newActor("d", role);
  const { location, directory } = world;
  const dependencies = world.dependenciesOf(actor);
  const { openStorage } = dependencies;
  const verify = async () => {
    const { turns } = directory;
    world.note(`verifier ${actor.pid}`);
    const storage = runStorage(openStorage(location.directory));
    const outside = openStorage(location.outside);
    const { damages } = await verifyAndMend({ storage, outside, openStorage }, dependencies);
    if (directory.turns !== turns || role !== "reader") return;
    for (const { file, problem } of damages) {
      world.violate(`verifier ${actor.pid}: ${file}: ${problem}`);
    }
  };
  void ends(actor, verify());
}
