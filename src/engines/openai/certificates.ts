import { readFileSync } from "node:fs";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { SluiceError } from "../../foundation/errors.ts";
import type { Environment } from "../../foundation/subprocess.ts";

/**
 * Trusted certificates beyond Node's own issuers and those of `NODE_EXTRA_CA_CERTS`: the content of
 * the file in `SSL_CERT_FILE`. Undefined if that is not set.
 *
 * @throws SluiceError `ENGINE_START_FAILED` if the file cannot be read or holds no certificate.
 */
export function trustOf({ SSL_CERT_FILE: path }: Environment): SecureContext | undefined {
  if (!path) return undefined;
  try {
    const text = readFileSync(path, "utf8");
    if (!text.includes("-----BEGIN CERTIFICATE-----")) throw new Error("no certificate in PEM");
    return createSecureContext({ ca: [...getCACertificates("default"), text] });
  } catch (cause) {
    throw new SluiceError("ENGINE_START_FAILED", `SSL_CERT_FILE: ${(cause as Error).message}`, {
      cause,
      hint: `let SSL_CERT_FILE name a file of certificates in PEM, or unset it: it is ${path}`,
    });
  }
}
