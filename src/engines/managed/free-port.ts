import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

/** The address at which managed servers listen: nobody else's machine can ask them. */
export const serverHost = "127.0.0.1";

/** A port that nothing listens on at this moment. Another process may take it in the next. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, serverHost);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
