import type { LookupOptions } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { SluiceError } from "./errors.ts";
import { lazily } from "./lazily.ts";

/** Which servers may be asked for what rows, lists and redirects name. */
export interface Reach {
  /** Origins that the job itself names: they are asked wherever they lie. */
  origins: readonly string[];
  /** True where loopback and private networks may be asked. */
  privateNetworks: boolean;
}

/** The kind of an address that is not public. */
type Refused = "link-local" | "private";

const linkLocal = lazily(() =>
  blockList([
    "169.254.0.0/16",
    // Metadata services of clouds that lie elsewhere: Alibaba, Azure, Oracle, and AWS by IPv6.
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.192/32",
    "fd00:ec2::254/128",
    "fe80::/10",
  ]),
);
const privateNetworks = lazily(() =>
  blockList([
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/3",
    "::/127",
    "2002::/16",
    "fc00::/7",
    "fec0::/10",
    "ff00::/8",
  ]),
);

/** Names that stand for such places, for proxies look up names themselves. */
const metadataName = /^(metadata(\.google\.internal|\.goog)?|instance-data(\.ec2\.internal)?)\.?$/;
const localName = /(^|\.)localhost\.?$/;

function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address, bits] = network.split("/") as [string, string];
    list.addSubnet(address, Number(bits), address.includes(":") ? "ipv6" : "ipv4");
    // Networks without IPv4 reach it by these names.
    if (isIP(address) === 4) list.addSubnet(`64:ff9b::${address}`, 96 + Number(bits), "ipv6");
  }
  return list;
}

function kindOf(host: string): Refused | undefined {
  const bare = host.replace(/^\[|\]$/g, "");
  const family = isIP(bare);
  if (family === 0) {
    if (metadataName.test(bare)) return "link-local";
    return localName.test(bare) ? "private" : undefined;
  }
  const type = family === 6 ? "ipv6" : "ipv4";
  if (linkLocal().check(bare, type)) return "link-local";
  return privateNetworks().check(bare, type) ? "private" : undefined;
}

/**
 * True for a host of the user's own, by its name alone: in a private network, without a domain, or
 * with one that no public host has.
 */
export function isOwnHost(hostname: string): boolean {
  if (kindOf(hostname) !== undefined) return true;
  if (isIP(hostname.replace(/^\[|\]$/g, "")) !== 0) return false;
  return !hostname.includes(".") || /\.(local|internal|lan|svc)$/.test(hostname);
}

/** True where private networks may be asked at an address: the job says so, or names it itself. */
export function isPrivateAllowed({ origins, privateNetworks }: Reach, url: URL): boolean {
  return privateNetworks || origins.includes(url.origin);
}

/**
 * Refuses an address that names a place which must not be asked. Names are looked at once more by
 * `lookupWithin`, when they have been looked up.
 *
 * @throws SluiceError `FILE_REFUSED`.
 */
export function assertWithin(url: URL, isPrivateAllowed: boolean): void {
  const fault = refusal(url.hostname, url.hostname, isPrivateAllowed);
  if (fault) throw fault;
}

/** A look-up of names that fails where one leads to a place which must not be asked. */
export function lookupWithin(isPrivateAllowed: boolean): LookupFunction {
  return async (host, options: LookupOptions, callback) => {
    // Loaded late: every run loads this module, and few look up names.
    const { lookup } = await import("node:dns");
    lookup(host, options, (error, found, family) => {
      const addresses = Array.isArray(found) ? found.map(({ address }) => address) : [found];
      const faults = error ? [] : addresses.map((each) => refusal(host, each, isPrivateAllowed));
      callback(error ?? faults.find((fault) => fault !== undefined) ?? null, found, family);
    });
  };
}

function refusal(
  host: string,
  address: string,
  isPrivateAllowed: boolean,
): SluiceError | undefined {
  const kind = kindOf(address);
  if (kind === undefined || (kind === "private" && isPrivateAllowed)) return undefined;
  const shown = host === address ? host : `${host} (${address})`;
  if (kind === "link-local") {
    return new SluiceError("FILE_REFUSED", `${shown} is of this machine's network or its cloud`, {
      hint: "nothing that a job reads may lie there: name another address",
    });
  }
  return new SluiceError(
    "FILE_REFUSED",
    `${shown} lies in a private network: see allow.privateNetworks`,
    {
      hint: "set allow.privateNetworks: true if you trust the rows, lists and servers that name it",
    },
  );
}
