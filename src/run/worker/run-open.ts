import type { Channel } from "../../foundation/channel.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { FromWorker, ToWorker } from "./protocol.ts";

/** The run of a worker that started without one. */
export type RunOpen = Extract<ToWorker, { type: "run-open" }>;

/**
 * Waits for `run-open`, the first message to a worker that started without a run. Later messages go
 * to the listener of `rest`.
 *
 * @returns undefined if the channel closed before the first message.
 * @throws SluiceError `PROTOCOL` if another message comes first, or an invalid one.
 */
export function untilRunOpen(
  channel: Channel<FromWorker, ToWorker>,
): Promise<{ run: RunOpen; rest: Channel<FromWorker, ToWorker> } | undefined> {
  return new Promise((resolve, reject) => {
    const waiting: ToWorker[] = [];
    let deliver: ((message: ToWorker) => void) | undefined;
    let isFirst = true;
    const rest: Channel<FromWorker, ToWorker> = {
      send: (message) => channel.send(message),
      onMessage(listener) {
        deliver = listener;
        for (const message of waiting.splice(0)) listener(message);
      },
      onClose: (listener) => channel.onClose(listener),
      close: () => channel.close(),
    };
    channel.onClose((error) => {
      if (error instanceof SluiceError) reject(error);
      else resolve(undefined);
    });
    channel.onMessage((message) => {
      if (!isFirst) return deliver ? deliver(message) : void waiting.push(message);
      isFirst = false;
      if (message.type === "run-open") resolve({ run: message, rest });
      else reject(new SluiceError("PROTOCOL", `"${message.type}" came before "run-open"`));
    });
  });
}
