import type { z } from "zod";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { nearest, oneOf, shown } from "../../foundation/suggest.ts";
import type { JobDraft } from "./draft.ts";
import { type Problem, problemsError } from "./problem.ts";
import { type JobSpec, jobSchema } from "./schema.ts";
import { formOf, namesBelow, nodesAt } from "./schema-tree.ts";

type Issue = z.core.$ZodIssue;

/**
 * The draft as a validated job.
 *
 * @param known problems that its layers had.
 * @throws SluiceError `JOB_INVALID` and others, with every problem.
 */
export function checkedJob(draft: JobDraft, known: readonly Problem[] = []): JobSpec {
  const problems = findSecrets(draft);
  // For one value, interpreting the schema takes a fraction of the time of compiling it.
  const parsed = jobSchema.safeParse(draft.value, { jitless: true });
  if (parsed.success && problems.length + known.length === 0) return parsed.data;
  const issues = parsed.success ? [] : parsed.error.issues;
  for (const issue of issues) problems.push(...explain(issue, [], draft));
  const seen = new Set<string>();
  const own = problems.filter(({ path, message }) => {
    const key = `${path.join(".")} ${message}`;
    return seen.has(key) ? false : seen.add(key);
  });
  throw problemsError([...known, ...own]);
}

const secretKeys = /^(api_?key|authorization|token|access_?token|secret|password|bearer)$/i;

/** Finds what looks like a secret in a job, which is written into the plan of every run. */
function findSecrets(draft: JobDraft): Problem[] {
  const model = draft.value.model;
  if (!isJsonObject(model)) return [];
  const stages = Array.isArray(model.stages) ? model.stages : [];
  return [
    ...secretsOfModel(model, ["model"], draft),
    ...stages.flatMap((stage, at) =>
      isJsonObject(stage) && isJsonObject(stage.model)
        ? secretsOfModel(stage.model, ["model", "stages", String(at), "model"], draft)
        : [],
    ),
  ];
}

function secretsOfModel(model: JsonObject, path: readonly string[], draft: JobDraft): Problem[] {
  const endpoints = Array.isArray(model.endpoints) ? model.endpoints : [];
  return [
    ...secretsOf(model, path, draft),
    ...endpoints.flatMap((endpoint, at) =>
      isJsonObject(endpoint) ? secretsOf(endpoint, [...path, "endpoints", String(at)], draft) : [],
    ),
  ];
}

function secretsOf(server: JsonObject, at: readonly string[], draft: JobDraft): Problem[] {
  const keyHint = "set a variable, and name it in model.apiKeyEnv: apiKeyEnv: OPENAI_API_KEY";
  const found = (key: string, message: string, hint = keyHint): Problem => {
    const path = [...at, key];
    return { code: "JOB_INVALID", path, message, origin: draft.originOf(path), hint };
  };
  const problems = Object.keys(server)
    .filter((key) => secretKeys.test(key))
    .map((key) => found(key, "a secret does not belong in a job, which is stored with its run"));
  const { apiKeyEnv, baseUrl, name } = server;
  if (typeof apiKeyEnv === "string" && !/^[A-Za-z_]\w*$/.test(apiKeyEnv)) {
    problems.push(found("apiKeyEnv", "must be the name of a variable, not its value"));
  }
  const holdsPassword = (text: unknown) => typeof text === "string" && /^\w+:\/\/[^/]*@/.test(text);
  if (holdsPassword(baseUrl)) problems.push(found("baseUrl", "must not hold a user or password"));
  if (holdsPassword(name)) {
    const hint = "fetch the file by hand, and name it by path";
    problems.push(found("name", "must not hold a user or password", hint));
  }
  return problems;
}

const axolotlHint = "this looks like a config of Axolotl: sluice inference batch -c reads it";

const fleetHint = "this describes a fleet of commands: sluice fleet create -c reads it";

function explain(issue: Issue, above: readonly string[], draft: JobDraft): Problem[] {
  const path = [...above, ...issue.path.map(String)];
  const at = (message: string, below: readonly string[] = path): Problem => ({
    code: "JOB_INVALID",
    path: below,
    message,
    origin: draft.originOf(below),
  });
  const value = valueAt(draft.value, path);
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys
        .filter((key) => !(path[0] === "model" && secretKeys.test(key)))
        .map((key) => ({
          ...at(unknownKey(key, path, draft), [...path, key]),
          ...(key === "base_model" && { hint: axolotlHint }),
          ...(path.length === 0 && key === "fleet" && { hint: fleetHint }),
        }));
    case "invalid_type":
      return [
        at(
          value === undefined
            ? missing(path)
            : `must be ${article(issue.expected)}, not ${shown(value)}${toGive(path)}`,
        ),
      ];
    case "invalid_value":
      return [at(value === undefined ? missing(path) : oneOf(value, issue.values.map(String)))];
    case "invalid_union":
      return explainUnion(issue, path, value, draft);
    case "too_small":
      return [at(`must ${bound(issue.origin, "at least", issue.inclusive, issue.minimum)}`)];
    case "too_big":
      return [at(`must ${bound(issue.origin, "at most", issue.inclusive, issue.maximum)}`)];
    case "invalid_format":
      return [
        at(
          issue.format === "url"
            ? `${shown(value)} is not a web address`
            : `${issue.message}, not ${shown(value)}`,
        ),
      ];
    default:
      return [at(issue.message)];
  }
}

function explainUnion(
  issue: Issue & { code: "invalid_union" },
  path: readonly string[],
  value: unknown,
  draft: JobDraft,
): Problem[] {
  const isAtEngine = issue.path.at(-1) === "engine";
  const engines = nodesAt(isAtEngine ? path.slice(0, -1) : path).flatMap((node) =>
    (node.oneOf ?? []).map((form) => String(form.properties?.engine?.const)),
  );
  if (issue.errors.length === 0 && engines.length > 0) {
    const key = isAtEngine ? path : [...path, "engine"];
    const message =
      value === undefined ? `is missing; one of ${engines.join(", ")}` : oneOf(value, engines);
    return [{ code: "JOB_INVALID", path: key, message, origin: draft.originOf(key) }];
  }
  // The meant form is the one with a fitting type: its faults lie deeper.
  const isAbout = (inner: Issue) =>
    inner.path.length === 0 &&
    (inner.code === "invalid_type" ||
      (inner.code === "invalid_value" && !inner.values.some((one) => typeof one === typeof value)));
  const meant = issue.errors.find((issues) => !issues.some(isAbout));
  if (meant) return meant.flatMap((inner) => explain(inner, path, draft));
  const expected = issue.errors.flat().flatMap((inner) => {
    if (inner.code === "invalid_value") return inner.values.map(String);
    return inner.code === "invalid_type" ? [article(inner.expected)] : [];
  });
  const message =
    value === undefined
      ? missing(path)
      : `must be ${[...new Set(expected)].join(" or ")}, not ${shown(value)}`;
  return [{ code: "JOB_INVALID", path, message, origin: draft.originOf(path) }];
}

function valueAt(value: Json, path: readonly string[]): Json | undefined {
  let at: Json | undefined = value;
  for (const key of path) {
    if (typeof at !== "object" || at === null) return undefined;
    at = (at as Record<string, Json>)[key];
  }
  return at;
}

const howToGive: Readonly<Record<string, string>> = {
  model: "name a model, as model: {engine: llama, name: …} or --model NAME",
};

const missing = (path: readonly string[]) => `is missing${toGive(path)}`;

function toGive(path: readonly string[]): string {
  const how = howToGive[path.join(".")];
  return how === undefined ? "" : `: ${how}`;
}

function unknownKey(key: string, path: readonly string[], draft: JobDraft): string {
  const value = valueAt(draft.value, path);
  const forms = nodesAt(path).flatMap((node) => formOf(node, value) ?? []);
  const own = forms.find((form) => form.properties?.[key]?.otherNameOf)?.properties?.[key];
  if (own) return `is another name of ${own.otherNameOf}, which is given too: give one of them`;
  const properties = forms.flatMap((form) => Object.entries(form.properties ?? {}));
  const known = properties.map(([name]) => name);
  const ownNames = properties.filter(([, node]) => !node.otherNameOf).map(([name]) => name);
  const everywhere = namesBelow(path);
  const engine = path.join(".") === "model" && isJsonObject(value) ? value.engine : undefined;
  if (engine !== undefined && everywhere.includes(key)) return `engine ${engine} has no such key`;
  const meant = nearest(key, known.length > 0 ? known : everywhere);
  return meant === undefined
    ? `is not a key here; known: ${ownNames.join(", ")}`
    : `is not a key here; did you mean ${meant}?`;
}

function bound(
  origin: string,
  side: string,
  isInclusive: boolean | undefined,
  limit: unknown,
): string {
  if (origin === "array") return `hold ${side} ${limit}`;
  if (origin === "string") return `have ${side} ${limit} characters`;
  if (isInclusive !== false) return `be ${side} ${limit}`;
  return side === "at least" ? `be more than ${limit}` : `be less than ${limit}`;
}

function article(type: string): string {
  const names: Readonly<Record<string, string>> = {
    string: "a text",
    number: "a number",
    int: "a whole number",
    boolean: "true or false",
    array: "a list",
    object: "an object",
    record: "an object",
    null: "null",
  };
  return names[type] ?? type;
}
