import { once } from "node:events";
import { createServer } from "node:net";

/** Below the ports that Linux gives to connections and to servers that name none. */
const [firstPort, lastPort] = [20_000, 32_767] as const;
/** Ports between the first ones of processes that start one after the other. */
const portsOfProcess = 97;
let next = process.pid * portsOfProcess;

/**
 * Different ports that are free. Nothing gets one of them by chance before it is used: the kernel
 * gives others, and other processes of tests begin to look elsewhere.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = firstPort + (next++ % (lastPort - firstPort + 1));
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port!;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  await once(server.close(), "close");
  return true;
}
