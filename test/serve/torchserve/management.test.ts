import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { DevicePool } from "../../../src/backends/local/device-pool.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import type { Logger } from "../../../src/foundation/logger.ts";
import { writeArchive } from "../../../src/serve/torchserve/archive.ts";
import { manifestSchema } from "../../../src/serve/torchserve/archive-options.ts";
import { readConfigProperties } from "../../../src/serve/torchserve/config-properties.ts";
import { standInDriver, threeGpus } from "../../engines/stand-in-driver.ts";
import { sent, serverFolder, serverHere } from "../server-here.ts";

describe("the management address", () => {
  it("describes as many workers as the server's file names", async () => {
    const { addresses } = await serverHere({ models: { m: { model: "fake", workers: 3 } } });
    const described = await (await fetch(`${addresses.management}/models/m`)).json();
    expect(described).toMatchObject([{ minWorkers: 3, maxWorkers: 3, workers: [{}, {}, {}] }]);
  });

  it("describes the GPUs that workers have", async () => {
    const folder = serverFolder();
    const module = join(folder, "predictor.mjs");
    writeFileSync(module, "export const predict = (batch) => batch.map(() => ({ ok: 1 }));");
    const PATH = `${standInDriver(threeGpus)}${delimiter}${process.env.PATH}`;
    const resources = { cores: 1, devices: new DevicePool({ PATH }) };
    const model = { engine: "predictor", module, devices: "all" };
    const models = { m: { model, workers: 4 }, named: { ...model, devices: [2] }, cpu: "fake" };
    const { addresses } = await serverHere({ models }, { resources });
    const described = async (name: string) =>
      ((await (await fetch(`${addresses.management}/models/${name}`)).json()) as JsonObject[])[0];
    expect(await described("m")).toMatchObject({
      ...{ deviceType: "gpu", deviceIds: [0, 1, 2] },
      workers: [0, 1, 2, 0].map((id) => ({ gpu: true, gpuUsage: `gpuId::${id}` })),
    });
    expect(await described("named")).toMatchObject({
      ...{ deviceIds: [2], workers: [{ gpu: true, gpuUsage: "gpuId::2" }] },
    });
    const cpu = await described("cpu");
    expect(cpu).toMatchObject({ deviceType: "cpu", workers: [{ gpu: false, gpuUsage: "N/A" }] });
    expect(cpu).not.toHaveProperty("deviceIds");
  });

  it.each([
    [{}, {}, [0, 1, 2]],
    [{ gpus: 2 }, {}, [0, 1]],
    [{ gpus: 0 }, {}, undefined],
    // A handler counts those that it sees.
    [{}, { CUDA_VISIBLE_DEVICES: "2,1" }, [0, 1]],
  ])("gives workers of archives GPUs by %j and %j: %j", async (archives, shown, deviceIds) => {
    const folder = serverFolder();
    const handler = { path: join(folder, "handler.mjs"), name: "handler.mjs" };
    writeFileSync(
      handler.path,
      "let id; export const initialize = (about) => { id = about.system_properties.gpu_id; };" +
        "export const handle = (rows) => rows.map(() => ({ id }));",
    );
    const about = { modelName: "n", handler: handler.name };
    const manifest = manifestSchema.parse({ runtime: "node", model: about });
    await writeArchive(join(folder, "n.mar"), manifest, [handler]);
    const environment = { PATH: `${standInDriver(threeGpus)}${delimiter}/usr/bin`, ...shown };
    const { addresses } = await serverHere(
      { models: {}, archives: { modelStore: folder, load: { n: "n.mar" }, ...archives } },
      { homeDirectory: folder, environment },
    );
    const [described] = (await (
      await fetch(`${addresses.management}/models/n`)
    ).json()) as JsonObject[];
    expect(described!.deviceIds).toEqual(deviceIds);
    const asked = await fetch(`${addresses.inference}/predictions/n`, { method: "POST" });
    expect(await asked.json()).toEqual({ id: deviceIds?.[0] ?? null });
  });

  it("takes any number, as TorchServe does, and shows it", async () => {
    const folder = serverFolder();
    const handler = { path: join(folder, "handler.mjs"), name: "handler.mjs" };
    writeFileSync(handler.path, "export const predict = (batch) => batch.map(() => ({ ok: 1 }));");
    const about = { modelName: "n", handler: handler.name };
    const manifest = manifestSchema.parse({ runtime: "node", model: about });
    await writeArchive(join(folder, "n.mar"), manifest, [handler]);
    const { addresses } = await serverHere(
      { models: {}, archives: { modelStore: folder } },
      { homeDirectory: folder },
    );
    const strange = "batch_size=999999999&response_timeout=0&startup_timeout=-5";
    const registered = await fetch(
      `${addresses.management}/models?url=n.mar&max_batch_delay=-1&${strange}`,
      { method: "POST" },
    );
    expect(await registered.json()).toEqual({
      status: 'Model "n" Version: 1.0 registered with 1 initial workers',
    });
    const described = await (await fetch(`${addresses.management}/models/n`)).json();
    expect(described).toMatchObject([
      { batchSize: 999_999_999, responseTimeout: 120, startupTimeout: 120 },
    ]);
    const asked = await fetch(`${addresses.inference}/predictions/n`, { method: "POST" });
    expect(await asked.json()).toEqual({ ok: 1 });
  });

  const table: [from: string, archive: string, asked: string, described: JsonObject][] = [
    [
      "config.properties",
      "plain.mar",
      "model_name=a",
      {
        ...{ minWorkers: 0, maxWorkers: 0, batchSize: 1, maxBatchDelay: 100 },
        ...{ responseTimeout: 7, startupTimeout: 8, deviceType: "cpu" },
        jobQueueStatus: { remainingCapacity: 9, pendingRequests: 0 },
      },
    ],
    [
      "`models` there",
      "plain.mar",
      "model_name=named",
      {
        ...{ minWorkers: 1, maxWorkers: 2, batchSize: 3, maxBatchDelay: 4, deviceIds: [7] },
        ...{ responseTimeout: 5, startupTimeout: 6, deviceType: "gpu" },
        jobQueueStatus: { remainingCapacity: 10, pendingRequests: 0 },
      },
    ],
    [
      "model-config.yaml",
      "yaml.mar",
      "model_name=b",
      {
        ...{ minWorkers: 0, maxWorkers: 12, batchSize: 13, maxBatchDelay: 14, deviceIds: [17, 18] },
        ...{ responseTimeout: 15, startupTimeout: 16, deviceType: "gpu" },
        jobQueueStatus: { remainingCapacity: 20, pendingRequests: 0 },
      },
    ],
    [
      "the registration",
      "yaml.mar",
      "model_name=c&initial_workers=0&batch_size=23&max_batch_delay=24&response_timeout=25" +
        "&startup_timeout=26",
      {
        ...{ minWorkers: 0, maxWorkers: 0, batchSize: 23, maxBatchDelay: 24, deviceIds: [17, 18] },
        ...{ responseTimeout: 25, startupTimeout: 26, deviceType: "gpu" },
        jobQueueStatus: { remainingCapacity: 20, pendingRequests: 0 },
      },
    ],
    [
      "model-config.yaml with deviceType",
      "cpu.mar",
      "model_name=d",
      { deviceType: "cpu", responseTimeout: 7 },
    ],
  ];

  it("takes settings from the registration, else the archive, else config.properties", async () => {
    const folder = serverFolder();
    const handler = { path: join(folder, "handler.mjs"), name: "handler.mjs" };
    writeFileSync(handler.path, "export const predict = (batch) => batch.map(() => ({ ok: 1 }));");
    const archive = async (name: string, yaml?: string) => {
      const about = { modelName: name, handler: handler.name };
      const configFile = yaml === undefined ? undefined : `${name}.yaml`;
      if (configFile) writeFileSync(join(folder, configFile), yaml!);
      const manifest = manifestSchema.parse({ runtime: "node", model: { ...about, configFile } });
      const config = configFile ? [{ path: join(folder, configFile), name: configFile }] : [];
      await writeArchive(join(folder, `${name}.mar`), manifest, [handler, ...config]);
    };
    await archive("plain");
    await archive(
      "yaml",
      "{ minWorkers: 0, maxWorkers: 12, batchSize: 13, maxBatchDelay: 14, responseTimeout: 15, " +
        "startupTimeout: 16, deviceIds: [17, 18], jobQueueSize: 20 }",
    );
    await archive("cpu", "deviceType: cpu\ndeviceIds: [1]\n");
    const ofServer = JSON.stringify({
      ...{ minWorkers: 1, maxWorkers: 2, batchSize: 3, maxBatchDelay: 4, responseTimeout: 5 },
      ...{ startupTimeout: 6, deviceIds: [7], jobQueueSize: 10 },
    });
    const [times, workers] = ["default_response_timeout=7\ndefault_startup_timeout=8", "0"];
    const { keys } = readConfigProperties(
      `${times}\ndefault_workers_per_model=${workers}\njob_queue_size=9\nnumber_of_gpu=0\n` +
        `models={"named": {"1.0": ${ofServer}}, "yaml.mar": {"1.0": ${ofServer}}}\n`,
      "config.properties",
    );
    const archives = { ...(keys.archives as JsonObject), modelStore: folder };
    const { addresses } = await serverHere(
      { models: {}, archives, limits: keys.limits as JsonObject },
      { homeDirectory: folder },
    );
    for (const [from, archiveName, asked, described] of table) {
      const path = `${addresses.management}/models?url=${archiveName}&${asked}`;
      expect((await fetch(path, { method: "POST" })).status, from).toBe(200);
      const [, name] = /model_name=(\w+)/.exec(asked)!;
      const [found] = (await (
        await fetch(`${addresses.management}/models/${name}`)
      ).json()) as JsonObject[];
      expect(found, from).toMatchObject(described);
    }
  });

  it("ends a worker that takes longer than response_timeout, and starts the next one", async () => {
    const folder = serverFolder();
    const handler = { path: join(folder, "handler.mjs"), name: "handler.mjs" };
    writeFileSync(
      handler.path,
      "export const predict = ([{ row }]) => row.sleeps ? new Promise(() => {}) : [{ ok: 1 }];",
    );
    const about = { modelName: "n", handler: handler.name };
    const manifest = manifestSchema.parse({ runtime: "node", model: about });
    await writeArchive(join(folder, "n.mar"), manifest, [handler]);
    const { addresses } = await serverHere(
      { models: {}, archives: { modelStore: folder }, limits: { maxTries: 1 } },
      { homeDirectory: folder },
    );
    const registered = `${addresses.management}/models?url=n.mar&response_timeout=1`;
    expect((await fetch(registered, { method: "POST" })).status).toBe(200);
    const predicted = `${addresses.inference}/predictions/n`;
    // As recorded.
    const died = { code: 500, type: "InternalServerException", message: "Worker died." };
    const slow = await sent(predicted, { sleeps: true });
    expect([slow.status, slow.body]).toEqual([500, died]);
    expect((await sent(predicted, {})).body).toEqual({ ok: 1 });
  });

  it("takes archives at and below the addresses that are allowed, not beside", async () => {
    const web = createServer((_, response) => response.writeHead(404).end());
    onTestFinished(() => void web.close());
    await once(web.listen(0, "127.0.0.1"), "listening");
    const origin = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
    const properties = `allowed_urls=${origin}/pre.*,${origin}/under/.*`;
    const { keys } = readConfigProperties(properties, "config.properties");
    const { urls } = keys.archives as { urls: string[] };
    const { addresses } = await serverHere({
      models: {},
      archives: { urls: [`${origin}/bucket`, `${origin}/folder/`, ...urls] },
    });
    const typeOf = async (path: string) => {
      const asked = `${addresses.management}/models?url=${origin}${path}`;
      return ((await (await fetch(asked, { method: "POST" })).json()) as { type: string }).type;
    };
    for (const path of ["/bucket", "/bucket/x.mar", "/folder/x.mar", "/prefix.mar", "/under/x.mar"])
      expect(await typeOf(path), path).toBe("DownloadArchiveException");
    for (const path of ["/bucket-evil/x.mar", "/bucket/../x.mar", "/folder", "/un", "/underneath"])
      expect(await typeOf(path), path).toBe("InvalidArchiveURLException");
  });

  it("starts no more workers than a machine has processes for", async () => {
    const { addresses } = await serverHere({ models: { m: "fake" } });
    const asked = async (method: string, path: string) => {
      const reply = await fetch(addresses.management + path, { method });
      return [reply.status, ((await reply.json()) as { message: string }).message];
    };
    const most = (name: string) => [400, `${name} cannot be more than 256.`];
    for (const count of [257, 999_999_999]) {
      expect(await asked("PUT", `/models/m?min_worker=${count}`)).toEqual(most("min_worker"));
      const registered = `/models?url=m.mar&initial_workers=${count}`;
      expect(await asked("POST", registered)).toEqual(most("initial_workers"));
    }
    // The most that there may be is no number of processes.
    expect((await asked("PUT", "/models/m?min_worker=2&max_worker=1000"))[0]).toBe(202);
  });

  it("forgets a version that was not loaded, and no other one", async () => {
    const folder = serverFolder();
    const store = async (file: string, version: string, code: string) => {
      const handler = { path: join(folder, `${file}.mjs`), name: "handler.mjs" };
      writeFileSync(handler.path, code);
      const about = { modelName: "n", modelVersion: version, handler: handler.name };
      const manifest = manifestSchema.parse({ runtime: "node", model: about });
      await writeArchive(join(folder, `${file}.mar`), manifest, [handler]);
    };
    const gate = join(folder, "gate");
    const held =
      "import { existsSync } from 'node:fs'; import { setTimeout as pause } from " +
      `'node:timers/promises'; while (!existsSync(${JSON.stringify(gate)})) await pause(20);`;
    const works = "export const predict = (batch) => batch.map(() => ({ ok: 1 }));";
    await store("held", "1.0", held + works);
    await store("broken", "1.0", `${held} throw new Error("broken");`);
    await store("one", "1.0", works);
    await store("two", "2.0", works);
    const notLoaded: string[] = [];
    const logger: Logger = {
      log: (_level, text) => void (text === "n 1.0 was not loaded" && notLoaded.push(text)),
    };
    const { addresses } = await serverHere(
      { models: {}, archives: { modelStore: folder } },
      { homeDirectory: folder, logger },
    );
    const asked = async (method: string, path: string, address = addresses.management) => {
      const reply = await fetch(address + path, { method });
      return { status: reply.status, body: await reply.json() };
    };
    const register = (file: string, isWaited: boolean) =>
      asked("POST", `/models?url=${file}.mar&synchronous=${isWaited}`);
    const workers = [{ status: "READY" }];

    expect((await register("held", false)).status).toBe(202);
    expect((await asked("DELETE", "/models/n")).status).toBe(200);
    expect((await register("one", true)).status).toBe(200);
    writeFileSync(gate, "");
    await expect.poll(() => notLoaded.length, { timeout: 20_000 }).toBe(1);
    expect(await asked("GET", "/models/n")).toMatchObject({
      body: [{ modelUrl: "one.mar", workers }],
    });

    expect((await asked("DELETE", "/models/n")).status).toBe(200);
    rmSync(gate);
    const failing = register("broken", true);
    await expect.poll(async () => (await asked("GET", "/models/n")).status).toBe(200);
    expect((await register("two", true)).status).toBe(200);
    writeFileSync(gate, "");
    expect(await failing).toMatchObject({
      status: 500,
      body: { message: expect.stringMatching(/^Failed to start workers for model n version: 1.0/) },
    });
    expect(await asked("GET", "/models/n")).toMatchObject({
      body: [{ modelUrl: "two.mar", workers }],
    });
    const predicted = await asked("POST", "/predictions/n", addresses.inference);
    expect(predicted).toEqual({ status: 200, body: { ok: 1 } });
  });
});
