import { BlockList, isIP } from "node:net";
import { SluiceError } from "./errors.ts";
import type { Environment } from "./subprocess.ts";

const defaultPorts: Record<string, string> = { "http:": "80", "https:": "443" };

/**
 * The environment's proxy for an address, or undefined: `HTTPS_PROXY` or `HTTP_PROXY` by the
 * address's protocol, unless `NO_PROXY` lists its host: `*`, a domain with all below it, an IP
 * address, each with or without a port, or a range such as `10.0.0.0/8`. Lower-case names take
 * precedence.
 *
 * @throws SluiceError `JOB_INVALID` if the proxy is not an http or https address.
 */
export function proxyFor(address: URL, environment: Environment): URL | undefined {
  const name = address.protocol === "https:" ? "https_proxy" : "http_proxy";
  const proxy = variable(environment, name);
  if (!proxy || isExempt(address, variable(environment, "no_proxy") ?? "")) return undefined;
  const text = proxy.includes("://") ? proxy : `http://${proxy}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && url.protocol in defaultPorts) return url;
  throw new SluiceError("JOB_INVALID", `${name.toUpperCase()} is not an http or https address`, {
    hint: "set it to an address such as http://proxy:3128, unset it, or list hosts in NO_PROXY",
  });
}

function variable(environment: Environment, name: string): string | undefined {
  return environment[name] ?? environment[name.toUpperCase()];
}

function isExempt(address: URL, noProxy: string): boolean {
  const port = address.port || defaultPorts[address.protocol];
  // An IP address of version 6 has brackets in a URL.
  const bareHost = address.hostname.replace(/^\[(.*)\]$/, "$1");
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
    .some((entry) => {
      if (entry === "*" || entry === bareHost || isInRange(bareHost, entry)) return true;
      const [, host = "", entryPort] = /^(.*?)(?::(\d+))?$/.exec(entry)!;
      if (entryPort !== undefined && entryPort !== port) return false;
      const domain = host.replace(/^\*?\./, "");
      return address.hostname === domain || address.hostname.endsWith(`.${domain}`);
    });
}

function isInRange(host: string, entry: string): boolean {
  const [, network = "", length = ""] = /^(.+)\/(\d{1,3})$/.exec(entry) ?? [];
  const version = isIP(network);
  if (version === 0 || isIP(host) !== version) return false;
  if (Number(length) > (version === 4 ? 32 : 128)) return false;
  const family = version === 4 ? "ipv4" : "ipv6";
  const range = new BlockList();
  range.addSubnet(network, Number(length), family);
  return range.check(host, family);
}

/** `Basic …` from a URL's user and password, or undefined if it has none. */
export function basicCredentials({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return undefined;
  const plain = `${decodedPart(username)}:${decodedPart(password)}`;
  return `Basic ${Buffer.from(plain).toString("base64")}`;
}

/** A user or password of a URL as it is meant. A `%` without an escape is legal, and stays. */
export function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
