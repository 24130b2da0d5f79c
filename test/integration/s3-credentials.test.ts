import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { openS3Bucket } from "../../src/data/s3/open.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { S3Proxy } from "../s3-proxy.ts";
import { missingS3Server, S3Server } from "../s3-server.ts";

/** The server's own, as services of a cloud give them out. */
const given = {
  AccessKeyId: "testkey",
  SecretAccessKey: "testsecret",
  Expiration: new Date(Date.now() + 3_600_000).toISOString(),
};

/** Gives credentials out as containers, machines and the token service of AWS do. */
const cloud: RequestListener = (request, response) => {
  const { method, url = "" } = request;
  const role = "/latest/meta-data/iam/security-credentials/";
  if (url === "/container" && request.headers.authorization === "container-token") {
    response.end(JSON.stringify({ ...given, Token: "" }));
  } else if (method === "PUT" && url === "/latest/api/token") {
    response.end("machine-token");
  } else if (url === role) {
    response.end("worker");
  } else if (url === `${role}worker`) {
    response.end(JSON.stringify({ Code: "Success", Type: "AWS-HMAC", Token: "", ...given }));
  } else if (method === "POST") {
    const { AccessKeyId, SecretAccessKey, Expiration } = given;
    const named = { AccessKeyId, SecretAccessKey, SessionToken: "", Expiration };
    const members = Object.entries(named).map(([name, text]) => `<${name}>${text}</${name}>`);
    const result = `<Credentials>${members.join("")}</Credentials>`;
    response.setHeader("content-type", "text/xml");
    response.end(
      `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">` +
        `<AssumeRoleWithWebIdentityResult>${result}</AssumeRoleWithWebIdentityResult>` +
        "</AssumeRoleWithWebIdentityResponse>",
    );
  } else {
    response.statusCode = 404;
    response.end();
  }
};

describe("credentials of an object store", () => {
  beforeEach((context) => context.skip(missingS3Server !== undefined, missingS3Server));

  const folder = mkdtempSync(join(tmpdir(), "sluice-s3-credentials-"));
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  let server: S3Server;
  let giver: Server;
  let address: string;
  beforeAll(async () => {
    if (missingS3Server !== undefined) return;
    server = await S3Server.start();
    await openS3Bucket(server.location("a"), server.context()).put("a", Buffer.from("1"));
    giver = createServer(cloud).listen(0, "127.0.0.1");
    await once(giver, "listening");
    address = `http://127.0.0.1:${(giver.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    await server?.stop();
    giver?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Lists the bucket with no keys in the environment but what `variables` lead to. */
  async function listed(variables: Record<string, string>) {
    const { AWS_ACCESS_KEY_ID: _, AWS_SECRET_ACCESS_KEY: __, ...place } = server.environment;
    const nothing = file("nothing", "");
    const files = { AWS_CONFIG_FILE: nothing, AWS_SHARED_CREDENTIALS_FILE: nothing };
    const environment = { ...place, HOME: folder, ...files, ...variables };
    return await runSluice(["ls", server.location("")], folder, environment);
  }

  const keys = "aws_access_key_id = testkey\naws_secret_access_key = testsecret\n";
  const ways: [name: string, variables: () => Record<string, string>][] = [
    [
      "a profile",
      () => ({
        AWS_PROFILE: "mine",
        AWS_SHARED_CREDENTIALS_FILE: file("credentials", `[mine]\n${keys}`),
      }),
    ],
    [
      "a container",
      () => ({
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `${address}/container`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN: "container-token",
      }),
    ],
    ["a machine of EC2", () => ({ AWS_EC2_METADATA_SERVICE_ENDPOINT: address })],
    [
      "a web identity",
      () => ({
        AWS_WEB_IDENTITY_TOKEN_FILE: file("token", "token"),
        AWS_ROLE_ARN: "arn:aws:iam::123456789012:role/worker",
        AWS_ENDPOINT_URL_STS: address,
      }),
    ],
  ];

  it.each(ways)("may come from %s", async (_name, variables) => {
    const { code, stdout, stderr } = await listed(variables());
    expect(code, stderr).toBe(0);
    expect(stdout).toContain(server.location("a"));
  });

  const job = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "{{ text }}"];

  it.each([
    ["an unknown key", { AWS_ACCESS_KEY_ID: "wrong" }, "check AWS_ACCESS_KEY_ID"],
    ["a wrong secret", { AWS_SECRET_ACCESS_KEY: "wrong" }, "check AWS_SECRET_ACCESS_KEY"],
    ["another region", { AWS_REGION: "eu-west-1" }, "to us-east-1"],
  ])("that are wrong are told with cause and hint: %s", async (_name, variables, hint) => {
    file("rows.jsonl", '{"text":"a"}\n');
    const environment = { ...server.environment, HOME: folder, ...variables };
    const place = server.location("wrong");
    const commands = [
      ["run", ...job, "--output", place],
      ["run", ...job.with(1, `${place}/rows.jsonl`), "--output", "out"],
      ["ls", server.location("")],
      ["doctor", "--output", place],
    ];
    for (const command of commands) {
      const { code, stdout, stderr } = await callHere(command, folder, environment);
      expect(code, command[0]).not.toBe(0);
      expect(stdout + stderr, command.join(" ")).toContain(hint);
      expect(stdout + stderr).not.toContain("name another --output");
    }
  });

  it.each([
    [403, "AccessDenied", "allow them to list"],
    [400, "InvalidToken", "AWS_SESSION_TOKEN"],
    [404, "NoSuchBucket", "create the bucket"],
  ] as const)("a store may refuse, with a hint for each refusal: %i %s", async (...refused) => {
    const [status, name, hint] = refused;
    file("rows.jsonl", '{"text":"a"}\n');
    const proxy = await S3Proxy.start({ server: server.address, refusal: [status, name] });
    onTestFinished(() => proxy.stop());
    const given = ["--store.endpoint", proxy.address];
    const environment = { ...server.environment, AWS_ENDPOINT_URL_S3: "http://127.0.0.1:9" };
    const place = server.location("refused");
    for (const command of [
      ["run", ...job, "--output", place],
      ["doctor", "--output", place],
    ]) {
      const { stdout, stderr } = await callHere([...command, ...given], folder, environment);
      expect(stdout + stderr, command.join(" ")).toContain(name);
      expect(stdout + stderr, command.join(" ")).toContain(hint);
    }
  });

  it("that are nowhere are asked for by name", async () => {
    const { code, stderr } = await listed({ AWS_EC2_METADATA_DISABLED: "true" });
    expect(code).not.toBe(0);
    expect(stderr).toContain("no credentials were found");
  });
});
