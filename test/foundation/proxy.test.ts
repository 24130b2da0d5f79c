import { describe, expect, it } from "vitest";
import { proxyFor } from "../../src/foundation/proxy.ts";

const proxyOf = (address: string, environment: Record<string, string>) =>
  proxyFor(new URL(address), environment)?.href;

const both = { HTTP_PROXY: "http://proxy:3128", HTTPS_PROXY: "http://secure:3129" };

describe("proxyFor", () => {
  it("goes by the protocol", () => {
    expect(proxyOf("http://host/v1", both)).toBe("http://proxy:3128/");
    expect(proxyOf("https://host/v1", both)).toBe("http://secure:3129/");
    expect(proxyOf("https://host/v1", { HTTP_PROXY: "http://proxy" })).toBeUndefined();
    expect(proxyOf("http://host/v1", {})).toBeUndefined();
  });

  it("prefers lower case, and takes a bare host", () => {
    expect(proxyOf("http://host", { ...both, http_proxy: "other:1" })).toBe("http://other:1/");
    expect(proxyOf("http://host", { ...both, http_proxy: "" })).toBeUndefined();
  });

  it.each([
    ["*", true],
    ["host.example.com", true],
    ["example.com", true],
    [".example.com", true],
    ["*.example.com", true],
    ["other, EXAMPLE.com:8000", true],
    ["example.com:8001", false],
    ["ample.com", false],
    ["", false],
  ])("NO_PROXY=%s exempts http://host.example.com:8000: %s", (noProxy, isExempt) => {
    const proxy = proxyOf("http://host.example.com:8000", { ...both, NO_PROXY: noProxy });
    expect(proxy === undefined).toBe(isExempt);
  });

  it.each([
    ["127.0.0.1", "http://127.0.0.1:8000", true],
    ["10.0.0.0/8", "http://10.42.0.7:8000", true],
    ["10.0.0.0/8", "http://11.0.0.1", false],
    ["10.0.0.0/99", "http://10.0.0.1", false],
    ["10.0.0.0/8", "http://ten.example.com", false],
    ["::1", "http://[::1]:8000", true],
    ["[::1]:8000", "http://[::1]:8000", true],
    ["[::1]:8001", "http://[::1]:8000", false],
    ["fd00::/8", "http://[fd12::3]", true],
    ["fd00::/8", "http://10.0.0.1", false],
  ])("NO_PROXY=%s exempts %s: %s", (noProxy, address, isExempt) => {
    expect(proxyOf(address, { ...both, NO_PROXY: noProxy }) === undefined).toBe(isExempt);
  });

  it("refuses what is no http address, without repeating it", () => {
    const environment = { HTTP_PROXY: "socks5://user:secret@host:1" };
    expect(() => proxyOf("http://host", environment)).toThrow(/HTTP_PROXY is not an http/);
    expect(() => proxyOf("http://host", environment)).not.toThrow(/secret/);
  });
});
