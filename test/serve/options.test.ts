import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { describeEngine } from "../../src/engines/registry.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { Logger } from "../../src/foundation/logger.ts";
import { isPublic } from "../../src/serve/listener.ts";
import { serveSchema } from "../../src/serve/options.ts";
import { startServer } from "../../src/serve/server.ts";
import { root } from "../meta/source-tree.ts";
import { serverContext, serverHere } from "./server-here.ts";

describe("limits of a server", () => {
  it("are all in docs/serve.md, with their defaults", () => {
    const text = readFileSync(join(root, "docs/serve.md"), "utf8");
    const rows = text.matchAll(/^\| `(\w+)` \| ([\d,]+)( [KM]iB)? \|/gm);
    const units: Record<string, number> = { " KiB": 1024, " MiB": 1024 ** 2 };
    const documented = Array.from(rows, ([, key, number, unit = ""]) => {
      return [key, Number(number!.replaceAll(",", "")) * (units[unit] ?? 1)];
    });
    expect(Object.fromEntries(documented)).toEqual(serveSchema.parse({ models: {} }).limits);
  });
});

describe("an address that others can reach", () => {
  it.each([
    ...["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.com:1", "localhost.example.com:1"],
    "127.0.0.1.example.com:1",
  ])("is %s, which is refused without tokens at each of its places", async (address) => {
    expect(isPublic(address)).toBe(true);
    for (const kind of ["inference", "management", "metrics"]) {
      const options = serveSchema.parse({ models: {}, listen: { [kind]: address } });
      await expect(startServer(options, serverContext())).rejects.toMatchObject({
        ...{ code: "SERVER_INVALID", place: { field: `listen.${kind}` } },
        hint: expect.stringContaining("give tokens"),
      });
    }
  });

  it.each(["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "LOCALHOST:1"])(
    "is not %s",
    (address) => expect(isPublic(address)).toBe(false),
  );

  const tokens = [{ name: "team", sha256: sha256Hex("a token") }];
  it.each([
    ["insecure: true, which the log says", { insecure: true }, true, 200],
    ["tokens", { tokens }, false, 401],
    ["both", { insecure: true, tokens }, false, 401],
  ])("is taken with %s", async (_, given, isSaid, status) => {
    const warnings: string[] = [];
    const logger: Logger = {
      log: (level, message) => void (level === "warn" && warnings.push(message)),
    };
    const any = "127.0.0.1:0";
    const listen = { inference: "0.0.0.0:0", management: any, metrics: any };
    const { addresses } = await serverHere({ models: {}, listen, ...given }, { logger });
    const says = "there are no tokens: everybody who reaches 0.0.0.0:0 may use this server";
    expect(warnings).toEqual(isSaid ? [says] : []);
    const address = addresses.inference.replace("0.0.0.0", "127.0.0.1");
    expect((await fetch(`${address}/v1/models`)).status).toBe(status);
  });
});

describe("where batches are answered", () => {
  const issuesOf = (batches: object) => {
    const { error } = serveSchema.safeParse({ models: {}, batches });
    return error?.issues.map(({ path, message }) => [path.join("."), message]) ?? [];
  };

  it("is this server, or a cluster with the keys of a job", () => {
    expect(serveSchema.parse({ models: {} }).batches).toEqual({ backend: "local" });
    const ray = { address: "head:6379", shared: true };
    expect(issuesOf({ backend: "ray", ray, workers: { max: 4, cpu: 2 } })).toEqual([]);
  });

  it.each<[string, object, RegExp]>([
    ["batches.ray", { ray: {} }, /goes with backend: ray/],
    ["batches.workers", { workers: { max: 2 } }, /goes with backend: ray/],
    ["batches.workers.min", { backend: "ray", workers: { min: 3, max: 2 } }, /above workers.max/],
    ["batches.ray.address", { backend: "ray", ray: { address: "ray://head" } }, /HOST:PORT/],
    ["batches.backend", { backend: "slurm" }, /"local"\|"ray"/],
  ])("has its faults named: %s", (key, batches, message) => {
    expect(issuesOf(batches)).toEqual([[key, expect.stringMatching(message)]]);
  });

  it("is no cluster beyond a dashboard, where coordinators would outlive the server", async () => {
    const options = serveSchema.parse({ models: {}, batches: { backend: "ray" } });
    const environment = { RAY_ADDRESS: "http://head:8265" };
    await expect(startServer(options, { environment } as never)).rejects.toMatchObject({
      ...{ code: "SERVER_INVALID", place: { field: "batches.ray.address" } },
    });
  });
});

describe("a model that is served", () => {
  it("answers a request alone soon, unless its file wants exact answers", () => {
    const { models } = serveSchema.parse({
      models: { a: "./a.gguf", b: { engine: "llama", name: "./a.gguf", precision: "exact" } },
    });
    const precisions = Object.values(models).map(({ model }) => {
      const online = describeEngine(model).forOnline!(model);
      return "precision" in online ? online.precision : undefined;
    });
    expect(precisions).toEqual(["fast", "exact"]);
  });
});

describe("the text of a model", () => {
  it("names the engine, its model, and the task where there are several", () => {
    const { models } = serveSchema.parse({
      models: { e: "transformers:feature-extraction:./minilm", o: "openvino:b", l: "./c.gguf" },
    });
    expect(models).toMatchObject({
      e: { model: { engine: "transformers", task: "feature-extraction", name: "./minilm" } },
      o: { model: { engine: "openvino", name: "b" } },
      l: { model: { engine: "llama", name: "./c.gguf" } },
    });
    const { error } = serveSchema.safeParse({ models: { e: "transformers:hf:owner/name" } });
    expect(error!.issues[0]).toMatchObject({ path: ["models", "e", "model", "task"] });
  });
});
