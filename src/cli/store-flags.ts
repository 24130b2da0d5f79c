import type { Command } from "commander";
import { type StoreOptions, storeVariables } from "../data/s3/store-options.ts";
import type { CliIo } from "./io.ts";

const flags: readonly [name: keyof StoreOptions, value: string, description: string][] = [
  ["endpoint", "<url>", "of places in an object store: the address of the service"],
  ["region", "<name>", "its region"],
  ["pathStyle", "<true|false>", "whether its buckets are in the path of addresses"],
  ["conditional", "<how>", "none: it has no conditional writes"],
];

/**
 * Declares the options for the place of an object store, like `store` in the job file, for a
 * command without a job.
 *
 * @returns the surroundings with the parsed options among their variables.
 */
export function withStoreFlags(command: Command, io: CliIo): CliIo {
  for (const [name, value, description] of flags) {
    command.option(`--store.${name} ${value}`, description);
  }
  const environment = () => {
    const given = command.opts() as Readonly<Record<string, string | undefined>>;
    const store = Object.fromEntries(
      flags.map(([name]) => [name, given[`store.${name}`]]),
    ) as StoreOptions;
    return { ...io.environment, ...storeVariables(store, io.environment) };
  };
  // Not by spreading: access to standard input opens it.
  return Object.defineProperties({} as CliIo, {
    ...Object.getOwnPropertyDescriptors(io),
    environment: { get: environment, enumerable: true },
  });
}
