import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { request } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import { assertWithin, isPrivateAllowed, lookupWithin } from "../../src/foundation/reach.ts";
import { downloadDispatcher } from "../../src/foundation/remote-file.ts";

const within = (address: string, isAllowed: boolean) => () =>
  assertWithin(new URL(address), isAllowed);

describe("the reach of a job", () => {
  it.each([
    ["http://169.254.169.254/latest/meta-data"],
    ["http://169.254.170.2/"],
    ["http://[::ffff:169.254.169.254]/"],
    ["http://[64:ff9b::169.254.169.254]/"],
    ["http://0xa9fea9fe/"],
    ["http://[fe80::1]/"],
    ["http://[fd00:ec2::254]/"],
    ["http://100.100.100.200/"],
    ["http://168.63.129.16/"],
    ["http://metadata.google.internal/"],
    ["http://METADATA.google.internal./"],
  ])("never has metadata services and link-local addresses: %s", (address) => {
    expect(within(address, true)).toThrow(/is of this machine's network or its cloud/);
  });

  it.each([
    ["http://127.0.0.1:8080/"],
    ["http://127.1/"],
    ["http://0/"],
    ["http://[::1]/"],
    ["http://[::]/"],
    ["http://[::ffff:10.0.0.1]/"],
    ["http://[64:ff9b::10.0.0.1]/"],
    ["http://10.1.2.3/"],
    ["http://172.31.0.1/"],
    ["http://192.168.1.1/"],
    ["http://100.64.0.1/"],
    ["http://[fc00::1]/"],
    ["http://localhost/"],
    ["http://db.localhost/"],
  ])("has private networks where the job says so: %s", (address) => {
    expect(within(address, false)).toThrow(/lies in a private network/);
    expect(within(address, true)).not.toThrow();
  });

  it.each(["http://93.184.216.34/", "http://[2606:2800:220:1::1]/", "https://example.org/"])(
    "has the public network: %s",
    (address) => expect(within(address, false)).not.toThrow(),
  );

  it("has the servers that the job names, port and all", () => {
    const reach = { origins: ["http://10.0.0.1:81"], privateNetworks: false };
    expect(isPrivateAllowed(reach, new URL("http://10.0.0.1:81/x"))).toBe(true);
    expect(isPrivateAllowed(reach, new URL("http://10.0.0.1/x"))).toBe(false);
    expect(isPrivateAllowed({ ...reach, privateNetworks: true }, new URL("http://x/"))).toBe(true);
  });

  it("holds for what names lead to, at the time of connecting", async () => {
    let requests = 0;
    const server = createServer((_request, response) => {
      requests++;
      response.end("here");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const asked = (isAllowed: boolean) => {
      const times = { connectTimeoutMs: 60_000, stallTimeoutMs: 60_000 };
      const dispatcher = downloadDispatcher({}, { ...times, lookup: lookupWithin(isAllowed) });
      return request(`http://localhost:${(server.address() as AddressInfo).port}/`, { dispatcher });
    };
    await expect(asked(false)).rejects.toMatchObject({ code: "FILE_REFUSED" });
    expect(requests).toBe(0);
    expect(await (await asked(true)).body.text()).toBe("here");
  });
});
