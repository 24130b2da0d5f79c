import { type buildConnector, type Dispatcher, Pool } from "undici";
import { droppingInterim } from "./interim-replies.ts";

/** Error codes of a tunnel: the proxy refused it, or could not make it. */
export const tunnelCodes = { refused: "ERR_PROXY_REFUSED", failed: "ERR_PROXY_TUNNEL" } as const;

/** Statuses of a proxy that may go away by another try. */
const momentaryStatuses = new Set([408, 429]);

/**
 * Options that undici's proxy agents need besides the address: a pool for each server behind a
 * tunnel, and one for the proxy, which must answer in time.
 *
 * Undici dials again without end if a tunnel breaks while it is made. An error with one of
 * `tunnelCodes` stops it.
 *
 * @example
 * new ProxyAgent({ uri: "http://proxy:3128", ...tunnelOptions(10_000) });
 */
export function tunnelOptions(connectTimeoutMs: number) {
  return {
    factory: tunnelPool,
    clientFactory: (proxy: URL, options: object): Dispatcher =>
      new Pool(proxy, { ...options, headersTimeout: connectTimeoutMs }),
  };
}

function tunnelPool(origin: string | URL, options: object): Dispatcher {
  const { connect } = options as { connect?: buildConnector.connector | object };
  if (typeof connect !== "function") return new Pool(origin, options);
  const dial = droppingInterim(connect as buildConnector.connector);
  return new Pool(origin, {
    ...options,
    connect(target, callback) {
      dial(target, (error, socket) => {
        if (error === null) callback(null, socket);
        else callback(tunnelError(error), null);
      });
    },
  });
}

function tunnelError(error: Error): Error {
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined || !code.startsWith("UND_ERR_")) return error;
  const status = Number(/Proxy response \((\d+)\)/.exec(error.message)?.[1]);
  const isRefused = status >= 400 && status < 500 && !momentaryStatuses.has(status);
  const message = Number.isNaN(status)
    ? `the proxy made no tunnel: ${error.message}`
    : `the proxy made no tunnel, status ${status}`;
  return Object.assign(new Error(message, { cause: error }), {
    code: isRefused ? tunnelCodes.refused : tunnelCodes.failed,
  });
}
