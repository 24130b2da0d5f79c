import type { Channel } from "../../foundation/channel.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { OnDelta } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import {
  type FromHost,
  type HostedDelta,
  type HostedEngine,
  type HostedKind,
  hostProtocol,
  type ToHost,
} from "./protocol.ts";

/** How long deltas are collected before they are sent on, and most characters of them. */
const maxDelayMs = 10;
const maxHeldChars = 65_536;

/** What a host needs of its process. */
export interface HostOptions {
  channel: Channel<FromHost, ToHost>;
  /** The id of this process: its worker may know only the id of the leash's holder. */
  pid: number;
  /**
   * @param onBatch is told of each batch that the engine forms.
   * @param onFetch is told now and then while the engine fetches what it loads.
   */
  open: (
    kind: HostedKind,
    options: Json,
    onBatch: (requests: number) => void,
    onFetch: (bytes: number) => void,
  ) => Promise<HostedEngine>;
  /** Called when the engine's state is unreliable: the process must end. */
  onFatal: (error: Error) => void;
  clock: Pick<Clock, "schedule">;
}

/**
 * Serves one engine over a channel until it is told to close. Named errors of a request go back to
 * the caller; any other failure ends the host, because a native library that failed once cannot be
 * trusted with the next row.
 */
export function serveHost({ channel, pid, open, onFatal, clock }: HostOptions): void {
  let engine: HostedEngine | undefined;
  const asked = new Map<number, AbortController>();
  const mailer = new DeltaMailer(clock, (deltas) => channel.send({ type: "infer-deltas", deltas }));

  const start = async (kind: HostedKind, options: Json) => {
    try {
      engine = await open(
        kind,
        options,
        (requests) => channel.send({ type: "batch-formed", requests }),
        (bytes) => channel.send({ type: "host-fetching", bytes }),
      );
      const { name, capacity, concurrency, choices } = engine;
      const tokenizes = engine.tokenize !== undefined;
      const facts = { name, capacity, concurrency, choices: { ...choices, pid }, tokenizes };
      channel.send({ type: "host-ready", protocol: hostProtocol, ...facts });
    } catch (thrown) {
      channel.send({ type: "host-failed", error: asSluiceError(thrown).toJSON() });
      channel.close();
    }
  };

  const answer = async (message: ToHost & { type: "infer" | "batch" | "tokenize" }) => {
    const { id } = message;
    const controller = new AbortController();
    asked.set(id, controller);
    try {
      const tell: OnDelta = (delta) => {
        if (asked.has(id) && !controller.signal.aborted) mailer.add({ id, ...delta });
      };
      const reply = await answerTo(message, engine, controller.signal, tell);
      mailer.send();
      channel.send(reply);
    } catch (thrown) {
      // A batch is awaited to its end, even without callers.
      if (controller.signal.aborted && message.type === "infer") return;
      if (!(thrown instanceof SluiceError)) return onFatal(thrown as Error);
      channel.send({ type: "infer-fail", id, error: thrown.toJSON() });
    } finally {
      asked.delete(id);
    }
  };

  const stop = async () => {
    for (const controller of asked.values()) controller.abort();
    await engine?.close();
    channel.close();
  };

  channel.onMessage((message) => {
    if (message.type === "host-open") {
      if (message.protocol !== hostProtocol) {
        const detail = `host speaks ${hostProtocol}, worker ${message.protocol}`;
        channel.send({ type: "host-failed", error: new SluiceError("PROTOCOL", detail).toJSON() });
      } else void start(message.kind, message.options);
    } else if (message.type === "infer-abort") asked.get(message.id)?.abort();
    else if (message.type === "host-close") void stop().catch(onFatal);
    else void answer(message);
  });
}

async function answerTo(
  message: ToHost & { type: "infer" | "batch" | "tokenize" },
  engine: HostedEngine | undefined,
  signal: AbortSignal,
  tell: OnDelta,
): Promise<FromHost> {
  const { type, id } = message;
  if (engine === undefined) throw new SluiceError("PROTOCOL", "asked before it was ready");
  if (type === "infer") {
    if (!engine.infer) throw new SluiceError("PROTOCOL", "the engine takes only batches");
    const onDelta = message.streams ? tell : undefined;
    const response = await engine.infer(message.request, signal, onDelta);
    return { type: "infer-end", id, response };
  }
  if (type === "batch") {
    if (!engine.runBatch) throw new SluiceError("PROTOCOL", "the engine takes no batches");
    return { type: "batch-end", id, replies: await engine.runBatch(message.items, signal) };
  }
  if (!engine.tokenize) throw new SluiceError("PROTOCOL", "the engine has no tokenizer");
  return { type: "tokenize-end", id, tokenized: await engine.tokenize(message.prompts) };
}

/**
 * Collects the deltas of all requests of a host for some milliseconds, to send one message instead
 * of one for each token. Deltas of one answer become one.
 */
class DeltaMailer {
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
    if (this.#chars >= maxHeldChars) return this.send();
    this.#cancelTimer ??= this.#clock.schedule(maxDelayMs, () => this.send());
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
