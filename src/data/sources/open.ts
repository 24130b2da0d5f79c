import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { Reach } from "../../foundation/reach.ts";
import { type ExpandOptions, expandInputs, type InputFile, type InputSource } from "../inputs.ts";
import type { OpenFile } from "../open-files.ts";
import { ReadAheadMemory } from "../read-ahead.ts";
import { localStorage } from "../storage/local.ts";
import { schemeOf } from "../storage/open.ts";
import { localSource } from "./local.ts";
import type { LocalCopy } from "./local-copy.ts";
import type { LeaveOut, SourceContext, SourceFile, SourceStore } from "./source-store.ts";

/** The inputs of jobs, in every place that Sluice can read. */
export interface InputStores {
  /**
   * The files of all sources, in the order of the sources.
   *
   * @param baseDirectory relative local paths start here.
   * @throws SluiceError `INPUT_MISSING`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`, `INPUT_FORMAT`,
   *   `INPUT_TOO_MANY_FILES`; `UNSUPPORTED` for an unknown scheme.
   */
  expand(
    sources: readonly InputSource[],
    baseDirectory: string,
    options?: Partial<Pick<ExpandOptions, "isMade" | "maxFiles">>,
  ): Promise<InputFile[]>;
  /**
   * All files below a folder, or the file of that name.
   *
   * @param leaveOut called for links to folders, links to nothing, and pipes.
   * @throws SluiceError `UNSUPPORTED` for a place that cannot be listed, `INPUT_UNREADABLE` for a
   *   folder that may not be read.
   */
  list(place: string, leaveOut?: LeaveOut): AsyncIterable<SourceFile>;
  /** Opens a file by the path that `expand` or `list` gave. */
  open: OpenFile;
  /**
   * Copies a remote file to this machine, for programs that open files themselves.
   *
   * @throws SluiceError of reading, and `STORE_FULL`.
   */
  copy(path: string, signal: AbortSignal): Promise<LocalCopy>;
  /** The same inputs, with requests to web servers limited to `reach`. */
  within(reach: Reach): InputStores;
}

const localFiles = localSource(localStorage("/"));

/**
 * Inputs by the schemes of their paths: local files, `s3://`, `r2://`, `gs://`, `https://`,
 * `http://` and `hf://`. The code for a scheme is loaded when it is first used.
 *
 * @example
 * const inputs = inputStores({ clock, random, environment, temporaryDirectory: "/tmp" });
 * const [file] = await inputs.expand([{ path: "hf://datasets/o/n/*.jsonl", maxLineBytes }], "/");
 * const reader = await inputs.open(file.path, { etag: file.etag });
 */
export function inputStores(context: SourceContext): InputStores {
  const memory = new ReadAheadMemory();
  const known = new Map<string, Promise<SourceStore>>();
  const inReach = new Map<string, InputStores>();
  const httpFiles = async (reach?: Reach) => {
    const { HttpFiles } = await import("./https.ts");
    return new HttpFiles(context, memory, reach);
  };
  const https = async (reach?: Reach) =>
    (await import("./https.ts")).httpsSource(await httpFiles(reach));
  const s3 = async () => (await import("./s3.ts")).s3Source(context, memory);
  // The user chooses the hub and the stores, and so trusts what these redirect to.
  const hf = async () =>
    (await import("./hugging-face.ts")).huggingFaceSource(await httpFiles(), context);
  const makers: Record<string, (reach?: Reach) => Promise<SourceStore>> = {
    ...{ s3, r2: s3, gs: s3, https, http: https, hf },
  };
  const storesWithin = (reach?: Reach): InputStores => {
    const reachKey = JSON.stringify(reach ?? null);
    const storeOf = async (path: string) => {
      const scheme = schemeOf(path);
      if (scheme === undefined) return localFiles;
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
    // Inputs with an equal reach share connections and copies.
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
    expand: (sources, baseDirectory, options) =>
      expandInputs(sources, {
        ...{ storeOf, baseDirectory, maxFiles: limits.maxInputFiles },
        ...options,
      }),
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
