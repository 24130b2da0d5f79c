import { readFileSync } from "node:fs";
import { z } from "zod";
import { openapiFile } from "../../../scripts/kubernetes-openapi.ts";

type Schema = Record<string, unknown>;

/** As the description of a quantity spells it. */
const quantity = "^[+-]?(\\d+\\.?\\d*|\\.\\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\\d+)?$";
/** What the document says in words or formats only. */
const additions: Record<string, Schema> = {
  "io.k8s.apimachinery.pkg.api.resource.Quantity": { pattern: quantity },
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString": { type: ["integer", "string"] },
};
const integers: Record<string, Schema> = {
  int32: { minimum: -(2 ** 31), maximum: 2 ** 31 - 1 },
};

/**
 * The check of jobs by the document that a version of Kubernetes publishes. Fields that it does not
 * name are faults.
 *
 * @returns the faults of a job, with their places.
 */
export function publishedSchema(version: string): (job: unknown) => string[] {
  const { definitions } = JSON.parse(readFileSync(openapiFile(version), "utf8")) as {
    definitions: Record<string, Schema & { properties?: Record<string, Schema> }>;
  };
  const strict = Object.entries(definitions).map(([name, { properties, ...rest }]) => {
    const bounded = Object.entries(properties ?? {}).map(([key, property]) => [
      key,
      { ...property, ...integers[`${property.format}`] },
    ]);
    const closed = { properties: Object.fromEntries(bounded), additionalProperties: false };
    return [name, { ...rest, ...(properties && closed), ...additions[name] }];
  });
  const schema = z.fromJSONSchema({
    $schema: "http://json-schema.org/draft-07/schema#",
    $ref: "#/definitions/io.k8s.api.batch.v1.Job",
    definitions: Object.fromEntries(strict),
  } as Parameters<typeof z.fromJSONSchema>[0]);
  return (job) =>
    (schema.safeParse(job).error?.issues ?? []).map(
      ({ path, message }) => `${path.join(".")}: ${message}`,
    );
}
