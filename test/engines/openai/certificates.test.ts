import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { trustOf } from "../../../src/engines/openai/certificates.ts";
import { chatRequest, rejectionOf } from "../engine-context.ts";
import { never, openOver } from "./openai-engine.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-tls-"));
const certificate = join(folder, "certificate.pem");
const key = join(folder, "key.pem");
const server = createServer((_, response) => {
  const message = { role: "assistant", content: "yes" };
  response.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }] }));
});
let baseUrl = "";

beforeAll(async () => {
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const made = ["-keyout", key, "-out", certificate, "-days", "2", "-nodes", ...subject];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", ...made], { stdio: "pipe" });
  server.setSecureContext({ key: readFileSync(key), cert: readFileSync(certificate) });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  baseUrl = `https://localhost:${(server.address() as AddressInfo).port}/v1`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("a server with a certificate of one's own", () => {
  it("is not trusted without more", async () => {
    const engine = openOver([{ baseUrl }], { maxInFlight: 2 });
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(error).toMatchObject({ code: "ENDPOINT_UNUSABLE", scope: "run" });
  });

  it("is trusted by SSL_CERT_FILE", async () => {
    const environment = { SSL_CERT_FILE: certificate };
    const engine = openOver([{ baseUrl }], { maxInFlight: 2 }, { environment });
    const all = [1, 2, 3].map((index) => engine.infer(chatRequest(index), never));
    for (const { answers } of await Promise.all(all)) expect(answers[0]!.text).toBe("yes");
  });
});

describe("SSL_CERT_FILE", () => {
  it("must be a file of certificates", () => {
    const empty = join(folder, "empty.pem");
    writeFileSync(empty, "nothing here");
    for (const path of [empty, join(folder, "gone.pem")]) {
      expect(() => trustOf({ SSL_CERT_FILE: path })).toThrow(
        expect.objectContaining({
          ...{ code: "ENGINE_START_FAILED", hint: expect.stringContaining(path) },
        }),
      );
    }
    expect(trustOf({})).toBeUndefined();
    expect(trustOf({ SSL_CERT_FILE: "" })).toBeUndefined();
  });
});
