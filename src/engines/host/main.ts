import { Socket } from "node:net";
import { jsonLinesChannel } from "../../foundation/channel.ts";
import { openHosted } from "./open.ts";
import { endWithParent } from "./parent-watch.ts";
import { type FromHost, hostChannelDescriptor, type ToHost } from "./protocol.ts";
import { serveHost } from "./serve.ts";

// Entry of an engine host: a child of a worker in which native engines run.

// Ctrl-C and the signals of a scheduler reach the whole process group; the worker decides.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

// A plain exit can hang in native code or in a heap that is being collected; nothing here is lost.
const leaveNow = () => process.kill(process.pid, "SIGKILL");

const socket = new Socket({ fd: hostChannelDescriptor });
const channel = jsonLinesChannel<FromHost, ToHost>(socket, socket);
channel.onClose(leaveNow);
serveHost({
  channel,
  open: (kind, options) => {
    // The others compute beside the event loop, and hear at once that the channel has closed.
    if (kind !== "llama" && kind !== "transformers") endWithParent(process.ppid);
    return openHosted(kind, options);
  },
  onFatal(error) {
    process.stderr.write(`${error.stack ?? error}\n`, leaveNow);
  },
});
