import type { EngineDescription } from "../engine-description.ts";
import { fullSupport } from "../parameter-support.ts";
import type { FakeModelOptions } from "./options.ts";

export const fakeDescription: EngineDescription<FakeModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openFake(options, context),
  // It stands in for any other engine, though most parameters do not change its answers.
  support: () => fullSupport,
  callsTools: true,
  contentParts: ["image", "audio"],
  keepsPrefixes: false,
  readsIndex: true,
  withAbsolutePaths(options, absolute) {
    const { countFile } = options;
    if (countFile === undefined) return options;
    return { ...options, countFile: absolute(countFile, "model", "countFile") };
  },
};
