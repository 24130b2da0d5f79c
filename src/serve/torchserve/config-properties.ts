import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { nearest } from "../../foundation/suggest.ts";
import { workerOptions } from "./archive-options.ts";

/** What a `config.properties` of TorchServe says. */
export interface ConfigProperties {
  keys: JsonObject;
  /** What has no effect here, each with its line. */
  warnings: string[];
}

interface Property {
  key: string;
  value: string;
  line: number;
}

/** @param warn gets what is said of an unknown key inside of the value. */
type Read = (value: string, warn: (problem: string) => void) => JsonObject;

const longestSeconds = 86_400;

/** Times and sizes beyond this are not meant. */
const largest = 2 ** 31 - 1;

/** The keys that mean something here. */
const known: Readonly<Record<string, Read>> = {
  inference_address: (value) => ({ listen: { inference: addressOf(value) } }),
  management_address: (value) => ({ listen: { management: addressOf(value) } }),
  metrics_address: (value) => ({ listen: { metrics: addressOf(value) } }),
  model_store: (value) => ({ archives: { modelStore: value } }),
  load_models: (value) => ({ archives: loadedArchives(value) }),
  models: (value, warn) => ({ archives: { models: servedArchives(value, warn) } }),
  default_workers_per_model: (value) => ({ archives: { workers: wholeNumber(value, 0) } }),
  number_of_gpu: (value) => ({ archives: { gpus: wholeNumber(value, 0) } }),
  allowed_urls: (value) => ({ archives: { urls: value.split(",").map(addressPrefix) } }),
  job_queue_size: (value) => ({ limits: { maxQueueSize: wholeNumber(value, 1) } }),
  max_request_size: (value) => ({ limits: { maxBodyBytes: wholeNumber(value, 1) } }),
  default_startup_timeout: (value) => ({
    archives: { startupTimeoutSeconds: wholeNumber(value, 1, longestSeconds) },
  }),
  default_response_timeout(value) {
    const seconds = wholeNumber(value, 1, longestSeconds);
    // A request may wait for others, each of which may take so long.
    const wholeMs = Math.max(600, seconds) * 1000;
    return {
      archives: { responseTimeoutSeconds: seconds },
      limits: { requestTimeoutMs: wholeMs, maxQueueWaitMs: wholeMs },
    };
  },
};

/** Keys of TorchServe that have no counterpart, or whose effect is always there. */
const withoutEffect = new Set([
  ...["async_logging", "blacklist_env_vars", "certificate_file", "cors_allowed_headers"],
  ...["cors_allowed_methods", "cors_allowed_origin", "cpu_launcher_args", "cpu_launcher_enable"],
  ...["decode_input_request", "default_service_handler", "disable_system_metrics"],
  ...["disable_token_authorization", "enable_envvars_config", "enable_grpc_ssl"],
  ...["enable_metrics_api", "enable_model_api", "grpc_inference_address"],
  ...["grpc_inference_max_connection_age_ms", "grpc_inference_port", "grpc_management_address"],
  ...["grpc_management_port", "initial_worker_port", "install_py_dep_per_model"],
  ...["ipex_enable", "keystore", "keystore_pass", "keystore_type", "limit_max_image_pixels"],
  ...["max_response_size", "metric_time_interval", "metrics_config", "metrics_format"],
  ...["metrics_mode", "model_server_home", "model_snapshot", "netty_client_threads"],
  ...["number_of_netty_threads", "plugins_path", "prefer_direct_buffer", "private_key_file"],
  ...["system_metrics_cmd", "tmp_dir", "token_expiration_min", "torch_compile_cache_dir"],
  ...["unregister_model_timeout", "use_env_allowed_urls", "use_native_io", "vmargs"],
  ...["workflow_store"],
]);

/**
 * Reads a `config.properties` of TorchServe.
 *
 * @param file its name in messages.
 * @throws SluiceError `SERVER_INVALID` for a wrong value, with the line.
 * @example
 * readConfigProperties("job_queue_size=4096\n", "config.properties").keys;
 * // { limits: { maxQueueSize: 4096 } }
 */
export function readConfigProperties(text: string, file: string): ConfigProperties {
  const warnings: string[] = [];
  let keys: JsonObject = {};
  for (const { key, value, line } of propertiesOf(text)) {
    const warn = (problem: string) => warnings.push(`${file}:${line}: ${problem}`);
    const read = Object.hasOwn(known, key) ? known[key] : undefined;
    if (read === undefined) {
      const isTheirs = withoutEffect.has(key);
      warn(isTheirs ? `${key} has no effect` : unknownKey(key, Object.keys(known)));
      continue;
    }
    try {
      keys = mergedKeys(
        keys,
        read(value, (problem) => warn(`${key}: ${problem}`)),
      );
    } catch (thrown) {
      const problem = (thrown as Error).message;
      throw new SluiceError("SERVER_INVALID", `${key} ${problem}, not ${JSON.stringify(value)}`, {
        ...{ file, line },
        hint: "docs/torchserve.md has the keys and their values",
      });
    }
  }
  return { keys, warnings };
}

function unknownKey(key: string, others: readonly string[]): string {
  const meant = nearest(key, others);
  return `${key} is unknown${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}

/** Two objects as one; where both have a value that is not an object, the second one's. */
export function mergedKeys(first: JsonObject, second: JsonObject): JsonObject {
  const merged = { ...first };
  for (const [key, value] of Object.entries(second)) {
    const before = merged[key];
    merged[key] = isJsonObject(before) && isJsonObject(value) ? mergedKeys(before, value) : value;
  }
  return merged;
}

/** The lines of a file in Java's form: a backslash at the end continues a line. */
function propertiesOf(text: string): Property[] {
  const found: Property[] = [];
  const lines = text.split(/\r\n|\n|\r/);
  for (let at = 0; at < lines.length; at++) {
    const line = at + 1;
    let whole = lines[at]!.trimStart();
    if (whole === "" || /^[#!]/.test(whole)) continue;
    while (/(?<!\\)(\\\\)*\\$/.test(whole) && at + 1 < lines.length) {
      whole = whole.slice(0, -1) + lines[++at]!.trimStart();
    }
    const [, key = "", value = ""] =
      /^((?:\\.|[^\\\s=:])+)(?:\s*[=:]\s*|\s+)?(.*)$/s.exec(whole) ?? [];
    found.push({ key: unescaped(key), value: unescaped(value).trim(), line });
  }
  return found;
}

const unescaped = (text: string) =>
  text.replaceAll(/\\(u[0-9a-f]{4}|.)/gi, (_whole, sign: string) => {
    if (sign.length > 1) return String.fromCharCode(Number.parseInt(sign.slice(1), 16));
    return { n: "\n", r: "\r", t: "\t", f: "\f" }[sign] ?? sign;
  });

function wholeNumber(value: string, least: number, most = largest): number {
  const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw new Error(`must be a whole number from ${least} to ${most}`);
}

function addressOf(value: string): string {
  const [, host, port] = /^http:\/\/([^\s:/]+|\[[^\]]+\])(?::(\d{1,5}))?\/?$/i.exec(value) ?? [];
  if (host !== undefined) return `${host}:${port ?? "80"}`;
  if (/^https:/i.test(value)) {
    throw new Error("must begin with http://; certificates are given by tls in the server's file");
  }
  throw new Error("must be an address, such as http://127.0.0.1:8080");
}

/** A pattern of TorchServe's that is a beginning of addresses, as one of `archives.urls`. */
function addressPrefix(value: string): string {
  const [, pattern = "", any] = /^(.*?)(\.?\*)?$/s.exec(value.trim())!;
  const prefix = pattern.replaceAll("\\.", ".");
  if (/^https?:\/\/[\w.-]+(:\d+)?\//.test(prefix) && !/[*|()[\]?+]/.test(prefix)) {
    return any === undefined || prefix.endsWith("/") ? prefix : `${prefix}*`;
  }
  throw new Error("must be beginnings of addresses, such as https://models.example.com/.*");
}

function loadedArchives(value: string): JsonObject {
  if (value === "all") return { loadAll: true };
  if (["", "none", "N/A", "standalone"].includes(value)) return {};
  return { load: archiveEntries(value) };
}

/** The entries of a list such as `ko=m2m.mar,en.mar`. */
export function archiveEntries(list: string): string[] {
  return list
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

const workerKeys = Object.keys(workerOptions.shape);

/** `models={"NAME": {"VERSION": {"marName": "…", "minWorkers": 1, …}}}`, by archive or name. */
function servedArchives(value: string, warn: (problem: string) => void): JsonObject {
  const shape = 'must be JSON such as {"noop": {"1.0": {"marName": "noop.mar", "batchSize": 8}}}';
  let models: Json;
  try {
    models = JSON.parse(value) as Json;
  } catch {
    throw new Error(shape);
  }
  if (!isJsonObject(models)) throw new Error(shape);
  const served: JsonObject = {};
  for (const [name, versions] of Object.entries(models)) {
    if (!isJsonObject(versions)) throw new Error(shape);
    for (const options of Object.values(versions)) {
      if (!isJsonObject(options)) throw new Error(shape);
      const { marName, defaultVersion, ...settings } = options;
      const given = Object.entries(settings).filter(([key]) => {
        const isKnown = workerKeys.includes(key);
        if (!isKnown) warn(`${name}: ${unknownKey(key, workerKeys)}`);
        return isKnown;
      });
      served[typeof marName === "string" ? marName : name] = Object.fromEntries(given);
    }
  }
  return served;
}
