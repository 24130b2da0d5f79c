import { dirname, join } from "node:path";
import type { InputFile, InputSource } from "../../data/inputs.ts";
import { isBelow } from "../../data/sources/beside-file.ts";
import { entriesOf } from "../../data/sources/glob.ts";
import type { InputStores } from "../../data/sources/open.ts";
import type { SourceFile } from "../../data/sources/source-store.ts";
import { schemeOf } from "../../data/storage/open.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { planPath } from "../directory/layout.ts";
import { locateRun } from "../directory/locate.ts";
import { readJson } from "../directory/records.ts";
import { madeOutputs } from "../output/plan-outputs.ts";
import type { Plan } from "./plan.ts";

/** The ending of a run directory beside its results. */
const besideEnding = ".sluice";

/**
 * The files of inputs except those that runs made: the files in a run directory, and results beside
 * one. A run whose output lies in its own input would change it, and another run would take it for
 * data. Under globs and folders they are skipped; files and folders that are named themselves are
 * kept.
 *
 * @param output this call's output: nothing there is input, whether it exists yet or not.
 * @throws SluiceError as `expand`; `INPUT_MISSING` if there are no other files.
 */
export async function withoutRuns(
  sources: readonly InputSource[],
  baseDirectory: string,
  output: OwnOutput,
  inputs: Pick<InputStores, "expand" | "list" | "open">,
): Promise<{ files: InputFile[]; leftOut: number }> {
  const search = new RunSearch(output, inputs);
  const isMade = (file: SourceFile) => search.isOfRun(file);
  const files = await inputs.expand(sources, baseDirectory, { isMade });
  const kept: InputFile[] = [];
  for (const file of files) if (!(await search.isOfRun(file))) kept.push(file);
  const [first] = files;
  if (first !== undefined && kept.length === 0) {
    const detail = `all ${files.length} files are results of runs, as ${first.path}`;
    const hint = `name the folder of the run, as ${dirname(first.path)}/, to read what it made`;
    throw new SluiceError("INPUT_MISSING", detail, { hint });
  }
  return { files: kept, leftOut: files.length - kept.length };
}

interface OwnOutput {
  path: string;
  errorFile?: string | undefined;
}

/** Schemes of the stores that runs are written to. */
const runStores: ReadonlySet<string | undefined> = new Set(["s3", "r2", "gs"]);

/** The files that runs made in the examined folders. */
class RunSearch {
  readonly #own: readonly string[];
  readonly #ownFolder: string;
  readonly #inputs: Pick<InputStores, "list" | "open">;
  readonly #folders = new Map<string, Promise<{ isRun: boolean; made: ReadonlySet<string> }>>();
  readonly #storesBelow = new Map<string, Promise<{ runs: string[]; made: ReadonlySet<string> }>>();

  constructor({ path, errorFile }: OwnOutput, inputs: Pick<InputStores, "list" | "open">) {
    this.#inputs = inputs;
    const { directory, outside, mergedFile } = locateRun(path);
    this.#ownFolder = directory;
    const merged = mergedFile === null ? [] : [`${outside}/${mergedFile}`];
    this.#own = [...merged, ...(errorFile ? [errorFile] : [])];
  }

  /** Files of a run directory that is named itself are wanted. */
  async isOfRun({ path, below }: SourceFile): Promise<boolean> {
    if (below === undefined) return false;
    const isNamed = below === this.#ownFolder || isBelow(below, this.#ownFolder);
    if (this.#own.includes(path) || (!isNamed && isBelow(path, this.#ownFolder))) return true;
    const scheme = schemeOf(path);
    if (scheme !== undefined) return runStores.has(scheme) && (await this.#isInStore(path, below));
    for (let folder = dirname(path); isBelow(`${folder}/x`, below); folder = dirname(folder)) {
      const { isRun, made } = await this.#lookInto(folder);
      if (made.has(path) || (isRun && folder !== below)) return true;
      if (folder === "/") break;
    }
    return false;
  }

  async #isInStore(path: string, below: string): Promise<boolean> {
    const known = this.#storesBelow.get(below) ?? this.#runsListed(below);
    this.#storesBelow.set(below, known);
    const { runs, made } = await known;
    return made.has(path) || runs.some((run) => run !== below && isBelow(path, run));
  }

  /** There, each check of a folder is a request: one listing finds the runs of all of them. */
  async #runsListed(below: string) {
    const runs: string[] = [];
    for await (const { path } of this.#inputs.list(below)) {
      if (path.endsWith(`/${planPath}`)) runs.push(path.slice(0, -planPath.length - 1));
    }
    const made = new Set<string>();
    for (const run of runs) for (const path of await this.#madeBy(run)) made.add(path);
    return { runs, made };
  }

  #lookInto(folder: string) {
    const known = this.#folders.get(folder) ?? this.#contentOf(folder);
    this.#folders.set(folder, known);
    return known;
  }

  async #contentOf(folder: string) {
    const entries = (await entriesOf(folder)).filter((entry) => entry.isDirectory());
    const names = entries.map(({ name }) => name);
    const isRun = names.includes(dirname(planPath)) && (await this.#planIn(folder)) !== undefined;
    const made = new Set<string>();
    for (const run of await runsBeside(folder, names)) {
      for (const path of await this.#madeBy(run)) made.add(path);
    }
    return { isRun, made };
  }

  /** Files that a run made beside its directory. */
  async #madeBy(directory: string): Promise<string[]> {
    const plan = await this.#planIn(directory);
    if (plan === undefined) return [];
    const { outside } = locateRun(directory);
    const { mergedFile, errorFile, outputs } = plan;
    const beside = [mergedFile, errorFile].filter((name) => typeof name === "string");
    const made = await madeOutputs(this.#at(directory), plan).catch(() => []);
    const base = outputs === undefined || outputs.base === "outside" ? outside : outputs.base;
    return [
      ...beside.map((name) => `${outside}/${name}`),
      ...made.map((path) => `${base}/${path}`),
    ];
  }

  async #planIn(directory: string): Promise<Plan | undefined> {
    const read = async (path: string) => {
      const reader = await this.#at(directory).open(path);
      try {
        return await reader.read(0, limits.maxPlanBytes);
      } finally {
        await reader.close();
      }
    };
    return await readJson<Plan>({ read }, planPath).catch(() => undefined);
  }

  #at(directory: string) {
    return { open: (path: string) => this.#inputs.open(`${directory}/${path}`) };
  }
}

/** Run directories in a folder, also those of patterns such as `{dir}/{stem}.csv`. */
async function runsBeside(folder: string, names: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const name of names) {
    const path = join(folder, name);
    if (name.endsWith(besideEnding)) found.push(path);
    else if (/\{\w+\}/.test(name)) {
      const inner = (await entriesOf(path)).filter((entry) => entry.isDirectory());
      found.push(
        ...(await runsBeside(
          path,
          inner.map((entry) => entry.name),
        )),
      );
    }
  }
  return found;
}
