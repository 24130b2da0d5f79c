import type { Channel } from "../../foundation/channel.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { FromWorker, ToWorker } from "./protocol.ts";

/** Which run a worker that was started without one is to work on. */
export type RunOpen = Extract<ToWorker, { type: "run-open" }>;

/**
 * Waits for the `run-open` that must be the first message to a worker that was started without a
 * run. What comes after it goes to whoever listens to `rest`.
 *
 * @returns undefined when the channel closed before anything came.
 * @throws SluiceError `PROTOCOL` if another message comes first, or something that is not one.
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
