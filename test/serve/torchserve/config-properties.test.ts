import { describe, expect, it } from "vitest";
import { readConfigProperties } from "../../../src/serve/torchserve/config-properties.ts";

const read = (text: string) => readConfigProperties(text, "config.properties");

describe("config.properties", () => {
  it("gives the keys of the server's file", () => {
    const { keys, warnings } = read(
      [
        "# the tutorial's",
        "inference_address=http://0.0.0.0:9999",
        "management_address = http://127.0.0.1:8081",
        "metrics_address: http://[::1]:8082",
        "job_queue_size=4096",
        "default_response_timeout=86400",
        "number_of_gpu=4",
        "model_store=/models/store",
        "load_models=ko=m2m.mar, en.mar",
        "default_workers_per_model 2",
        "max_request_size=65535000",
        "allowed_urls=https://models.example.com/.*",
        "models={\\",
        '  "noop": {\\',
        '    "1.0": {"defaultVersion": true, "marName": "noop.mar", \\',
        '      "minWorkers": 1, \\',
        '      "maxWorkers": 2, "batchSize": 4, "maxBatchDelay": 100, "responseTimeout": 60}}}',
        "",
      ].join("\n"),
    );
    expect(warnings).toEqual([]);
    expect(keys).toEqual({
      listen: {
        inference: "0.0.0.0:9999",
        management: "127.0.0.1:8081",
        metrics: "[::1]:8082",
      },
      limits: {
        maxQueueSize: 4096,
        requestTimeoutMs: 86_400_000,
        maxQueueWaitMs: 86_400_000,
        maxBodyBytes: 65_535_000,
      },
      archives: {
        responseTimeoutSeconds: 86_400,
        gpus: 4,
        modelStore: "/models/store",
        load: ["ko=m2m.mar", "en.mar"],
        workers: 2,
        urls: ["https://models.example.com/"],
        models: {
          "noop.mar": {
            ...{ minWorkers: 1, maxWorkers: 2, batchSize: 4 },
            ...{ maxBatchDelay: 100, responseTimeout: 60 },
          },
        },
      },
    });
  });

  it("knows the ways to load all archives, and none", () => {
    expect(read("load_models=all").keys).toEqual({ archives: { loadAll: true } });
    expect(read("load_models=none").keys).toEqual({ archives: {} });
    expect(read("load_models=").keys).toEqual({ archives: {} });
  });

  it("names keys without an effect, and unknown ones with the nearest, by their lines", () => {
    const { keys, warnings } = read("\n! vm\nvmargs=-Xmx4g\n\njob_queue_sise=1\nx.y=1\n");
    expect(keys).toEqual({});
    expect(warnings).toEqual([
      "config.properties:3: vmargs has no effect",
      "config.properties:5: job_queue_sise is unknown; did you mean job_queue_size?",
      "config.properties:6: x.y is unknown",
    ]);
  });

  it("names unknown keys of a model by its name, and takes the others", () => {
    const { keys, warnings } = read('models={"noop": {"1.0": {"batchSise": 8, "maxWorkers": 2}}}');
    expect(keys).toEqual({ archives: { models: { noop: { maxWorkers: 2 } } } });
    expect(warnings).toEqual([
      "config.properties:1: models: noop: batchSise is unknown; did you mean batchSize?",
    ]);
  });

  it.each([
    ["job_queue_size=0", "a whole number from 1"],
    ["job_queue_size=ten", "a whole number from 1"],
    ["default_response_timeout=90000", "from 1 to 86400"],
    ["inference_address=8080", "must be an address"],
    ["inference_address=https://127.0.0.1:8443", "tls in the server's file"],
    ["allowed_urls=file://.*|http(s)?://.*", "beginnings of addresses"],
    ["allowed_urls=https://.*", "beginnings of addresses"],
    ["models={", "must be JSON"],
    ['models={"a":1}', "must be JSON"],
  ])("refuses %s with its line", (line, message) => {
    expect(() => read(`# first\n${line}`)).toThrow(message);
    expect(() => read(`# first\n${line}`)).toThrow("config.properties:2");
  });

  it("reads escapes and continued lines as Java does", () => {
    const { keys } = read("model\\_store = /a\\u0020b\\\n   /c\nload_models=a\\=b.mar\r\n");
    expect(keys).toEqual({ archives: { modelStore: "/a b/c", load: ["a=b.mar"] } });
  });
});
