import type { Socket } from "node:net";
import { buildConnector } from "undici";

/** How an interim reply begins, and the most bytes that its header may have. */
const start = Buffer.from("HTTP/1.x 100");
const versionAt = 7;
const end = "\r\n\r\n";
const maxBytes = 16 * 1024;

/**
 * A connector for undici that drops an unrequested `100 Continue`, as some proxies and servers send
 * it. Undici closes the connection at such a reply, so these servers could not be used; RFC 9110,
 * section 15.2, tells clients to read past it.
 */
export function connectorWithoutInterim(
  options: buildConnector.BuildOptions,
): buildConnector.connector {
  return droppingInterim(buildConnector(options));
}

/** Makes an existing connector drop them too. */
export function droppingInterim(connect: buildConnector.connector): buildConnector.connector {
  return (target, callback) =>
    connect(target, (error, socket) => {
      if (error !== null) return callback(error, null);
      dropInterim(socket);
      callback(null, socket);
    });
}

function dropInterim(socket: Socket): void {
  const write = socket.write.bind(socket) as (...parts: unknown[]) => boolean;
  const push = socket.push.bind(socket);
  /** True after a write: the next bytes begin a reply. */
  let isAtStart = false;
  /** Bytes too few to tell whether they begin an interim reply. */
  let held: Buffer | undefined;
  socket.write = (...parts: unknown[]) => {
    isAtStart = true;
    return write(...parts);
  };
  socket.push = (chunk: unknown) => {
    if (!isAtStart) return push(chunk);
    const bytes = Buffer.isBuffer(chunk) ? withoutInterim(held, chunk) : held;
    const isUndecided = chunk !== null && bytes !== undefined && mayBeInterim(bytes);
    held = isUndecided ? bytes : undefined;
    if (isUndecided) return true;
    isAtStart = bytes?.length === 0;
    const isRoom = bytes === undefined || bytes.length === 0 || push(bytes);
    return chunk === null ? push(null) : isRoom;
  };
}

/** The bytes that follow all complete interim replies. */
function withoutInterim(held: Buffer | undefined, chunk: Buffer): Buffer {
  let rest = held === undefined ? chunk : Buffer.concat([held, chunk]);
  while (isInterim(rest)) {
    const last = rest.indexOf(end);
    if (last < 0) return rest;
    rest = rest.subarray(last + end.length);
  }
  return rest;
}

function mayBeInterim(bytes: Buffer): boolean {
  return (
    bytes.length < maxBytes && (bytes.length < start.length ? isStart(bytes) : isInterim(bytes))
  );
}

function isInterim(bytes: Buffer): boolean {
  return bytes.length >= start.length && isStart(bytes);
}

function isStart(bytes: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  for (let at = 0; at < length; at++) {
    if (at !== versionAt && bytes[at] !== start[at]) return false;
  }
  return true;
}
