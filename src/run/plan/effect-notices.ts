import { describeEngine } from "../../engines/registry.ts";
import { shownText } from "../../foundation/shown-path.ts";
import type { JobSpec } from "../job/schema.ts";

/** Characters of a command line that are shown. */
const maxShownChars = 200;

/**
 * What a job does beyond reading its input and writing its output, a line each: what it executes,
 * what it sets for its workers, and which secrets go where.
 *
 * @example
 * effectNotices(job); // ["this job executes python3 predict.py"]
 */
export function effectNotices(job: JobSpec): string[] {
  const { model, env } = job;
  const executed = [...new Set(describeEngine(model).executes?.(model))];
  const variables = Object.keys(env).filter((name) => env[name] !== null);
  const lines: [what: string, of: readonly string[]][] = [
    ["executes", executed.map((text) => shownText(text).slice(0, maxShownChars))],
    ["sets variables of its workers:", variables],
    ["sends secrets:", sentSecrets(job)],
  ];
  return lines.flatMap(([what, of]) =>
    of.length === 0 ? [] : `this job ${what} ${of.join(", ")}`,
  );
}

function sentSecrets({ model, input, store }: JobSpec): string[] {
  const keys = (describeEngine(model).sendsKeys?.(model) ?? []).map(
    ({ variable, host, isDefault }) => `${variable} to ${host}${isDefault ? ", if it is set" : ""}`,
  );
  const isOfHub = input.some(({ path }) => /^hf:/i.test(path)) || /^hf:/i.test(model.name ?? "");
  const hub = isOfHub ? ["HF_TOKEN to the hub, if it is set"] : [];
  const endpoint = store?.endpoint;
  const signed = endpoint ? [`what your keys of S3 sign to ${new URL(endpoint).host}`] : [];
  return [...new Set([...keys, ...hub, ...signed])];
}
