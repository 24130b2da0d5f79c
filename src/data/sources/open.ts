import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { Reach } from "../../foundation/reach.ts";
import { expandInputs, type InputFile, type InputSource } from "../inputs.ts";
import type { OpenFile } from "../open-files.ts";
import { ReadAheadBudget } from "../read-ahead.ts";
import { localStorage } from "../storage/local.ts";
import { schemeOf } from "../storage/open.ts";
import { localSource } from "./local.ts";
import type { LocalCopy } from "./local-copy.ts";
import type { LeaveOut, SourceContext, SourceFile, SourceStore } from "./source-store.ts";

/** The inputs of jobs, wherever they lie. */
export interface InputStores {
  /**
   * The files of all sources, in the order of the sources.
   *
   * @param baseDirectory what relative paths of this machine start from.
   * @throws SluiceError `INPUT_MISSING`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`, `INPUT_FORMAT`,
   *   `INPUT_TOO_MANY_FILES`; `UNSUPPORTED` for other schemes.
   */
  expand(
    sources: readonly InputSource[],
    baseDirectory: string,
    maxFiles?: number,
  ): Promise<InputFile[]>;
  /**
   * All files below a folder, or the file of that name.
   *
   * @param leaveOut told of links to folders, of those that lead nowhere, and of pipes.
   * @throws SluiceError `UNSUPPORTED` for places that cannot be listed, `INPUT_UNREADABLE` for a
   *   folder that may not be read.
   */
  list(place: string, leaveOut?: LeaveOut): AsyncIterable<SourceFile>;
  /** Opens a file by the path that `expand` or `list` gave. */
  open: OpenFile;
  /**
   * Copies a far file to this machine, for programs that open files themselves.
   *
   * @throws SluiceError as reading it throws, and `STORE_FULL`.
   */
  copy(path: string, signal: AbortSignal): Promise<LocalCopy>;
  /** The same, where of web servers only those within reach are asked. */
  within(reach: Reach): InputStores;
}

const thisMachine = localSource(localStorage("/"));

/** Inputs of this machine alone. */
export const localInputs: InputStores = inputsOf(
  "/tmp",
  async (path) => {
    const scheme = schemeOf(path);
    if (scheme === undefined) return thisMachine;
    throw new SluiceError("UNSUPPORTED", `input of the scheme ${scheme}: in ${path}`, {
      hint: "give paths of this machine",
    });
  },
  () => localInputs,
);

/**
 * Inputs by the schemes of their paths: files of this machine, `s3://`, `r2://`, `gs://`,
 * `https://`, `http://` and `hf://`. What a scheme needs is loaded when it is first met.
 *
 * @example
 * const inputs = inputStores({ clock, random, environment, temporaryDirectory: "/tmp" });
 * const [file] = await inputs.expand([{ path: "hf://datasets/o/n/*.jsonl", maxLineBytes }], "/");
 * const reader = await inputs.open(file.path, { etag: file.etag });
 */
export function inputStores(context: SourceContext): InputStores {
  const budget = new ReadAheadBudget();
  const known = new Map<string, Promise<SourceStore>>();
  const inReach = new Map<string, InputStores>();
  const httpFiles = async (reach?: Reach) => {
    const { HttpFiles } = await import("./https.ts");
    return new HttpFiles(context, budget, reach);
  };
  const https = async (reach?: Reach) =>
    (await import("./https.ts")).httpsSource(await httpFiles(reach));
  const s3 = async () => (await import("./s3.ts")).s3Source(context, budget);
  // Whoever runs Sluice chooses the hub and the stores, and what they redirect to.
  const hf = async () =>
    (await import("./hugging-face.ts")).huggingFaceSource(await httpFiles(), context);
  const makers: Record<string, (reach?: Reach) => Promise<SourceStore>> = {
    ...{ s3, r2: s3, gs: s3, https, http: https, hf },
  };
  const storesWithin = (reach?: Reach): InputStores => {
    const reachKey = JSON.stringify(reach ?? null);
    const storeOf = async (path: string) => {
      const scheme = schemeOf(path);
      if (scheme === undefined) return thisMachine;
      const make = makers[scheme];
      if (!make) {
        throw new SluiceError("UNSUPPORTED", `input of the scheme ${scheme}: in ${path}`, {
          hint: `give a path of this machine, or one of ${Object.keys(makers).join("://, ")}://`,
        });
      }
      const key = make === https ? reachKey : scheme;
      const store = known.get(key) ?? make(reach);
      known.set(key, store);
      return await store;
    };
    // Those of one reach share connections and copies.
    const stores =
      inReach.get(reachKey) ?? inputsOf(context.temporaryDirectory, storeOf, storesWithin);
    inReach.set(reachKey, stores);
    return stores;
  };
  return storesWithin();
}

function inputsOf(
  temporaryDirectory: string,
  storeOf: (path: string) => Promise<SourceStore>,
  within: (reach: Reach) => InputStores,
): InputStores {
  const open: OpenFile = async (path, hints) => (await storeOf(path)).open(path, hints);
  return {
    expand: (sources, baseDirectory, maxFiles = limits.maxInputFiles) =>
      expandInputs(sources, { storeOf, baseDirectory, maxFiles }),
    async *list(place, leaveOut) {
      const store = await storeOf(place);
      if (store.list) return yield* store.list(place, leaveOut);
      throw new SluiceError("UNSUPPORTED", `nobody lists ${place}`, {
        hint: "name a folder of this machine, of a bucket or of a dataset on the hub",
      });
    },
    open,
    async copy(path, signal) {
      const { copyToMachine } = await import("./local-copy.ts");
      return copyToMachine(path, open, temporaryDirectory, signal);
    },
    within,
  };
}
