import type { Clock } from "../../foundation/clock.ts";
import { limits } from "../../foundation/limits.ts";
import type { HostedDelta } from "./protocol.ts";

/**
 * Collects the deltas of all requests of a host for some milliseconds, to send one message instead
 * of one for each token. Deltas of one answer become one.
 */
export class DeltaMailer {
  readonly #clock: Pick<Clock, "schedule">;
  readonly #mail: (deltas: readonly HostedDelta[]) => void;
  readonly #held = new Map<string, HostedDelta>();
  #chars = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(clock: Pick<Clock, "schedule">, mail: (deltas: readonly HostedDelta[]) => void) {
    this.#clock = clock;
    this.#mail = mail;
  }

  add({ id, choice, text, tokens = 0 }: HostedDelta): void {
    const key = `${id} ${choice}`;
    const held = this.#held.get(key);
    const joined = (held?.text ?? "") + text;
    this.#held.set(key, { id, choice, text: joined, tokens: (held?.tokens ?? 0) + tokens });
    this.#chars += text.length;
    if (this.#chars >= limits.maxHeldDeltaChars) return this.send();
    this.#cancelTimer ??= this.#clock.schedule(limits.maxDeltaDelayMs, () => this.send());
  }

  /** Sends the collected deltas. */
  send(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#held.size === 0) return;
    const deltas = [...this.#held.values()];
    this.#held.clear();
    this.#chars = 0;
    this.#mail(deltas);
  }
}
