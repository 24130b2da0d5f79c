import { insideImageVariable } from "../../engines/engine.ts";
import { looksSecret } from "../../engines/secrets.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { FleetSpec } from "./fleet-schema.ts";

type Asked = Pick<FleetSpec, "image" | "registrySecret" | "env">;

/** A backend that starts workers in the fleet's image. */
interface Bringer {
  key: "kubernetes" | "codeEngine" | "sky";
  /** The settings for an image, over which those of the job file go. */
  settings(fleet: Asked & { image: string }, own: JsonObject): JsonObject;
  /** The image that its settings name, as a fleet names it. */
  imageOf(settings: JsonObject): string | undefined;
}

const text = (value: unknown) => (typeof value === "string" ? value : undefined);

const plainImage: Bringer["imageOf"] = ({ image }) => text(image);

/** Backends whose workers run in the image, by their names. */
const bringers: Readonly<Record<string, Bringer>> = {
  kubernetes: {
    key: "kubernetes",
    settings: ({ image, registrySecret }, own) => ({
      image,
      ...(registrySecret !== undefined && { imagePullSecrets: [registrySecret] }),
      ...own,
    }),
    imageOf: plainImage,
  },
  "code-engine": {
    key: "codeEngine",
    settings: ({ image, registrySecret }, own) => ({
      image,
      ...(registrySecret !== undefined && { registrySecret }),
      ...own,
    }),
    imageOf: plainImage,
  },
  sky: {
    key: "sky",
    settings: ({ image }, { resources = {}, ...own }) => ({
      ...own,
      resources: { imageId: `docker:${image}`, ...(resources as JsonObject) },
    }),
    imageOf: ({ resources }) =>
      text((resources as JsonObject | undefined)?.imageId)?.replace(/^docker:/, ""),
  },
};

/**
 * The keys of a job by which its backend gives programs the fleet's image, secret and variables:
 * settings of the backend, and `env`.
 *
 * @throws SluiceError `USAGE` for a registry secret that nothing uses.
 */
export function backendKeys(
  fleet: Asked,
  job: JsonObject,
): JsonObject & { env: Record<string, string | null> } {
  const { image, registrySecret, env } = fleet;
  const backend = text(job.backend) ?? "local";
  const bringer = Object.hasOwn(bringers, backend) ? bringers[backend] : undefined;
  if (registrySecret !== undefined) assertPullsBy(backend, image);
  if (bringer === undefined) return { env };
  const { key, settings, imageOf } = bringer;
  const own = (job[key] ?? {}) as JsonObject;
  const brought = image === undefined ? own : settings({ ...fleet, image }, own);
  if (key !== "sky" && imageOf(brought) === undefined) {
    throw new SluiceError("USAGE", `backend ${backend} needs --image`, {
      hint: "name an image with Node.js and Sluice: sluice image builds one",
    });
  }
  const isInside = image !== undefined && imageOf(brought) === image;
  const all = key === "sky" ? passedOn(fleet, brought) : brought;
  return {
    ...(Object.keys(all).length > 0 && { [key]: all }),
    env: { ...env, ...(isInside && { [insideImageVariable]: image }) },
  };
}

/** SkyPilot takes variables of the caller by their names. */
function passedOn({ env }: Asked, settings: JsonObject): JsonObject {
  const { secrets = [], envs = {} } = settings as { secrets?: string[]; envs?: JsonObject };
  const names = Object.entries(env)
    .filter(([name, value]) => value === null || looksSecret(name, value))
    .map(([name]) => name)
    .filter((name) => !secrets.includes(name) && !Object.hasOwn(envs, name));
  return names.length === 0 ? settings : { ...settings, secrets: [...secrets, ...names] };
}

function assertPullsBy(backend: string, image: string | undefined): void {
  if (image === undefined) {
    throw new SluiceError("USAGE", "--registry-secret has no effect without --image");
  }
  if (backend === "kubernetes" || backend === "code-engine") return;
  const hint =
    backend === "sky"
      ? "name its login by sky.secrets: [SKYPILOT_DOCKER_USERNAME, SKYPILOT_DOCKER_PASSWORD, SKYPILOT_DOCKER_SERVER]"
      : "leave it out: podman login or docker login opens a registry, on each machine with programs";
  throw new SluiceError("USAGE", `--registry-secret has no effect with backend ${backend}`, {
    hint,
  });
}
