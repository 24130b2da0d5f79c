import { quotedWord } from "../../foundation/shown-path.ts";
import type { Environment } from "../../foundation/subprocess.ts";

/** The job's options for its object stores: `store` in the job file. */
export interface StoreOptions {
  /** Address of the service; default: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, else AWS. */
  endpoint?: string | undefined;
  /** Default: `AWS_REGION`, `AWS_DEFAULT_REGION`, the profile's region, else `us-east-1`. */
  region?: string | undefined;
  /** True: `endpoint/bucket/key`; false: `bucket.endpoint/key`. Default: true with `endpoint`. */
  pathStyle?: boolean | undefined;
  /** `none`: the store has no conditional writes. Default: it has, which is tested first. */
  conditional?: "if-none-match" | "none" | undefined;
}

const variables = {
  endpoint: "SLUICE_STORE__ENDPOINT",
  region: "SLUICE_STORE__REGION",
  pathStyle: "SLUICE_STORE__PATH_STYLE",
  conditional: "SLUICE_STORE__CONDITIONAL",
} as const;

/** The same options from the environment, for commands without a job. */
export function storeFromEnvironment(environment: Environment): StoreOptions {
  const { endpoint, region, pathStyle, conditional } = variables;
  const isPathStyle = environment[pathStyle];
  return {
    endpoint: environment[endpoint] || undefined,
    region: environment[region] || undefined,
    pathStyle: isPathStyle ? isPathStyle === "true" : undefined,
    conditional: environment[conditional] === "none" ? "none" : undefined,
  };
}

/** Options as the flags of a command without a job. */
export function storeFlags(store: StoreOptions = {}): string[] {
  return Object.keys(variables).flatMap((key) => {
    const value = store[key as keyof StoreOptions];
    return value === undefined ? [] : [`--store.${key}`, String(value)];
  });
}

/** The same flags in a command to be typed, each after a space. */
export function storeWords(store: StoreOptions): string {
  const words = storeFlags(store).map((word) => ` ${quotedWord(word)}`);
  return words.join("");
}

/** Options as the variables that `storeFromEnvironment` reads; only those that change something. */
export function storeVariables(
  store: StoreOptions,
  environment: Environment,
): Record<string, string> {
  const changed: Record<string, string> = {};
  for (const [key, name] of Object.entries(variables)) {
    const value = store[key as keyof StoreOptions];
    if (value !== undefined && environment[name] !== String(value)) changed[name] = String(value);
  }
  return changed;
}
