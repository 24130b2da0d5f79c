import { type buildConnector, type Dispatcher, Pool } from "undici";
import { droppingInterim } from "./interim-replies.ts";

/** Codes of errors that a tunnel ends with: the proxy does not want it; it could not make it. */
export const tunnelCodes = { refused: "ERR_PROXY_REFUSED", failed: "ERR_PROXY_TUNNEL" } as const;

/** Statuses by which a proxy says that another try may go well. */
const momentaryStatuses = new Set([408, 429]);

/**
 * What undici's proxy agents need besides: pools for the servers behind tunnels, and one for the
 * proxy itself, which must answer in time.
 *
 * Undici takes a tunnel that breaks while it is made for a broken connection and dials again
 * without end. Under one of `tunnelCodes` it gives up.
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
