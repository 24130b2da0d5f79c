import { mix32 } from "../foundation/random.ts";
import type { ReceivedRequest, ServerBehaviour } from "./fake-server.ts";

/** Faults of a stand-in server, as data: a process of its own takes them on its command line. */
export interface FaultScript {
  /** What chance follows from; default 0. */
  seed?: number;
  faults: readonly ScriptedFault[];
}

/** One kind of fault, and which requests it befalls. */
export interface ScriptedFault {
  behaviour: ServerBehaviour;
  /** Share of the requests, 0 to 1, by chance. Default 1. */
  share?: number;
  /** Number of the first request that it may befall, from 0, and of the first that it may not. */
  from?: number;
  until?: number;
  /** Only requests whose body holds this text. */
  containing?: string;
}

/**
 * Turns a script into what a stand-in server does: of the faults that befall a request, the first.
 *
 * @example
 * const script = { faults: [{ behaviour: { kind: "status", status: 500 }, share: 0.1 }] };
 * const server = await startFakeServer({ behave: behaviourOf(script) });
 */
export function behaviourOf({ seed = 0, faults }: FaultScript) {
  return ({ number, body }: ReceivedRequest): ServerBehaviour | undefined => {
    const drawn = mix32(mix32(seed) + number) / 0x1_0000_0000;
    let below = 0;
    for (const { behaviour, share = 1, from = 0, until = Infinity, containing = "" } of faults) {
      if (number < from || number >= until || !body.includes(containing)) continue;
      below += share;
      if (drawn < below) return behaviour;
    }
    return undefined;
  };
}
