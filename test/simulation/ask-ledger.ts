import type { InferenceRequest } from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { promptSetOf } from "../../src/run/plan/job-prompts.ts";
import type { Actor } from "./actor.ts";
import { anyRequest } from "./observed-storage.ts";
import type { Scenario } from "./scenario.ts";

/** One request that was given to the engine. */
export interface Ask {
  row: number;
  /** `<row>.<position>`: the row's first request is `7.0`. */
  request: string;
  by: Actor;
  serves: string;
  isAnswered: boolean;
}

/** Everything that was asked. An ask's number is part of its answer: no two are the same. */
export class AskLedger {
  readonly asks: Ask[] = [];
  /** Requests that were asked and not on file when their process was killed, by what it served. */
  readonly inFlightAtKills = new Map<string, number>();
  /** Names of the requests of each row, in order; none where the row cannot be rendered. */
  readonly requestsOfRow: readonly (readonly string[])[];

  constructor({ job, input }: Scenario) {
    const promptSet = promptSetOf(job, 1);
    this.requestsOfRow = input.lines.map(({ raw, broken }, index) => {
      if (broken) return [];
      return promptSet.requests(JSON.parse(raw) as JsonObject, index).map(nameOf);
    });
  }

  /** Notes an ask; returns its number, and whether its answer was on file already. */
  add(actor: Actor, request: InferenceRequest): { number: number; isKnown: boolean } {
    const { index: row } = request.origin!;
    const position = this.requestsOfRow[row]!.indexOf(nameOf(request));
    const name = `${row}.${position}`;
    const ask = { row, request: name, by: actor, serves: actor.serves!, isAnswered: false };
    const isKnown = [...actor.known.values()].some(
      (known) => known.has(name) || known.has(anyRequest(row)),
    );
    return { number: this.asks.push(ask) - 1, isKnown };
  }

  /** Requests that were answered to processes which left since of their own accord. */
  keptByLeavers(serves: string): Set<string> {
    const kept = new Set<string>();
    for (const { by, request, isAnswered, ...ask } of this.asks) {
      const hasLeft = by.hasEnded && by.process.state === "running" && by.journalFaults === 0;
      if (isAnswered && hasLeft && ask.serves === serves) kept.add(request);
    }
    return kept;
  }

  /** Counts what is lost with a process. */
  noteKill(actor: Actor, onFile: ReadonlySet<string>): void {
    const { serves } = actor;
    if (serves === undefined) return;
    const asked = this.asks.filter(({ by }) => by === actor);
    const lost = new Set(
      asked
        .filter(({ row, request }) => !onFile.has(request) && !onFile.has(anyRequest(row)))
        .map(({ request }) => request),
    );
    this.inFlightAtKills.set(serves, (this.inFlightAtKills.get(serves) ?? 0) + lost.size);
  }
}

function nameOf({ origin }: InferenceRequest): string {
  const { promptName, element } = origin!;
  return `${promptName} ${element ?? "-"}`;
}
