import { Socket } from "node:net";
import { jsonLinesChannel } from "../../foundation/channel.ts";
import { systemClock } from "../../foundation/clock.ts";
import { leashChannelDescriptor } from "../../foundation/leashed-process.ts";
import { openHosted } from "./open.ts";
import type { FromHost, ToHost } from "./protocol.ts";
import { serveHost } from "./serve.ts";

// Entry of an engine host: a child of a worker in which native engines run.

// Ctrl-C and the signals of a scheduler reach the whole process group; the worker decides.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

// A plain exit can hang in native code or in a heap that is being collected; nothing here is lost.
const leaveNow = () => process.kill(process.pid, "SIGKILL");

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
