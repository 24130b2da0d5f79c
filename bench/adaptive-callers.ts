import type { Pace } from "../src/engines/openai/pace/pace.ts";
import type { Random } from "../src/foundation/random.ts";
import type { EventTime, KneeServer, Work } from "./knee-server.ts";

/** Whoever sends requests without end. */
export interface Caller {
  /** Tokens of answers, and answers, so far. */
  readonly tokens: number;
  readonly answered: number;
  pump(): void;
}

/** Sends as much as its pace allows. */
export class PacedCaller implements Caller {
  tokens = 0;
  answered = 0;
  readonly #server: KneeServer;
  readonly #workOf: () => Work;
  readonly #pace: Pace;
  /** Refused, to be sent again. */
  readonly #again: Work[] = [];

  constructor(server: KneeServer, workOf: () => Work, pace: Pace) {
    this.#server = server;
    this.#workOf = workOf;
    this.#pace = pace;
    pace.onRoom(() => this.pump());
  }

  pump(): void {
    for (;;) {
      const work = this.#again.pop() ?? this.#workOf();
      const admission = this.#pace.tryAdmit(work.promptTokens + work.maxTokens);
      if (admission === undefined) {
        this.#again.push(work);
        return;
      }
      this.#server.send(work, ({ status, headers, retryAfterMs }) => {
        if (status === 200) {
          this.tokens += work.completionTokens;
          this.answered++;
          admission.end({ outcome: "answered", ...work, headers });
        } else {
          this.#again.push(work);
          admission.end({ outcome: "limited", retryAfterMs, headers });
        }
      });
    }
  }
}

/** Keeps a fixed number of requests under way, each of which is tried until it is answered. */
export class FixedCaller implements Caller {
  tokens = 0;
  answered = 0;
  readonly #server: KneeServer;
  readonly #workOf: () => Work;
  readonly #limit: number;
  readonly #time: EventTime;
  readonly #random: Random;
  #inFlight = 0;

  constructor(
    server: KneeServer,
    workOf: () => Work,
    limit: number,
    time: EventTime,
    random: Random,
  ) {
    this.#server = server;
    this.#workOf = workOf;
    this.#limit = limit;
    this.#time = time;
    this.#random = random;
  }

  pump(): void {
    while (this.#inFlight < this.#limit) {
      this.#inFlight++;
      this.#send(this.#workOf(), 0);
    }
  }

  // Waits as the usual clients do: half a second, doubled up to eight, by chance, or as told.
  #send(work: Work, tries: number): void {
    this.#server.send(work, ({ status, retryAfterMs = 0 }) => {
      if (status === 200) {
        this.tokens += work.completionTokens;
        this.answered++;
        this.#inFlight--;
        return this.pump();
      }
      const longestMs = Math.min(8000, 500 * 2 ** tries);
      const waitMs = Math.max(retryAfterMs, longestMs * this.#random.next());
      this.#time.schedule(waitMs, () => this.#send(work, tries + 1));
    });
  }
}
