import { entryCommand } from "../../../src/entry.ts";

const [node, main] = entryCommand("engines/host/main", process.execPath);

/** Starts a host whose engine of kind `predictor` is that of `hosted-echo.ts`. */
export const echoHostCommand: readonly string[] = [
  ...[node!, "--import", new URL("./hosted-echo.ts", import.meta.url).href, main!],
];
