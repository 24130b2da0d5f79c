import { Socket } from "node:net";
import { jsonLinesChannel } from "../../foundation/channel.ts";
import { systemClock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";
import { leashChannelDescriptor } from "../../foundation/leashed-process.ts";
import type { FromHost, HostedEngine, HostedKind, ToHost } from "./protocol.ts";
import { serveHost } from "./serve.ts";

// Entry of an engine host: a child of a worker in which native engines run.

// Ctrl-C and the signals of a scheduler reach the whole process group; the worker decides.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

// A plain exit can hang in native code or in garbage collection; nothing here is lost.
const leaveNow = () => process.kill(process.pid, "SIGKILL");

type OpenKind = (
  options: Json,
  onBatch: (requests: number) => void,
  onFetch: (bytes: number) => void,
) => Promise<HostedEngine>;

const openers: Partial<Record<HostedKind, OpenKind>> = {
  llama: async (options) => {
    const { openHostedLlama } = await import("../llama/hosted-llama.ts");
    // Written before the library can abort: pipes are synchronous here.
    return openHostedLlama(options, (line) => void process.stderr.write(`${line}\n`));
  },
  predictor: async (options) =>
    (await import("../predictor/hosted-predictor.ts")).openHostedPredictor(options),
  stages: async (options) =>
    (await import("../pipeline/hosted-stages.ts")).openHostedStages(options),
  transformers: async (...given) => {
    const { openHostedTransformers } = await import("../transformers/hosted-transformers.ts");
    const stray = Promise.withResolvers<never>();
    process.on("unhandledRejection", stray.reject);
    const engine = await openHostedTransformers(...given, stray.promise);
    process.off("unhandledRejection", stray.reject);
    return engine;
  },
};

const socket = new Socket({ fd: leashChannelDescriptor });
const channel = jsonLinesChannel<FromHost, ToHost>(socket, socket);
channel.onClose(leaveNow);
serveHost({
  channel,
  clock: systemClock,
  pid: process.pid,
  open: openHosted,
  onFatal(error) {
    process.stderr.write(`${error.stack ?? error}\n`, leaveNow);
  },
});

/** Opens the implementation of `kind` in this process, which is an engine host. */
async function openHosted(kind: HostedKind, ...given: Parameters<OpenKind>): Promise<HostedEngine> {
  const open = openers[kind];
  if (!open) throw new SluiceError("PROTOCOL", `unknown kind of engine: ${String(kind)}`);
  return open(...given);
}
