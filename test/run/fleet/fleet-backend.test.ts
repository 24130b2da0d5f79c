import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { renderFleet } from "../../../src/backends/code-engine/render.ts";
import type { Rendered, ShareWork } from "../../../src/backends/joining/scheduler.ts";
import { renderIndexedJob } from "../../../src/backends/kubernetes/render.ts";
import { renderSkyTask } from "../../../src/backends/sky/render.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { createFleet } from "../../../src/run/fleet/fleet.ts";
import { fleetSchema } from "../../../src/run/fleet/fleet-schema.ts";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import { dependenciesOf, scratchFolder } from "../whole-run.ts";

/** A fleet with everything that a backend can be told of. */
const everything = {
  name: "inferencing",
  count: 20,
  image: "registry.example/recipes:1",
  command: ["python", "app.py"],
  ...{ cpu: 24, memory: "120G", gpu: "l40s:1", maxScale: 2, retries: 1, timeout: "30m" },
  mountDataStore: { "/input": "input:/inferencing", "/output": "output:/inferencing" },
  env: { MODEL: "granite", HF_TOKEN: null },
};
const stores = { input: "s3://recipes/in", output: "s3://recipes/out" };

/** The job of a fleet, as it is planned. */
async function jobOf(fleet: object, backend: string, keys: JsonObject = {}): Promise<JobSpec> {
  const folder = scratchFolder();
  const planned: JobSpec[] = [];
  await createFleet(
    {
      ...{ root: join(folder, "fleets"), stores, workingDirectory: folder },
      spec: fleetSchema.parse({ count: 1, command: "true", ...fleet }),
      job: { backend, ...keys },
      plan: async (job) => void planned.push(job),
    },
    dependenciesOf(),
  );
  return planned[0]!;
}

async function rendered(
  render: (work: ShareWork) => Rendered | Promise<Rendered>,
  backend: string,
  keys: JsonObject,
  fleet: object = {},
): Promise<string> {
  const job = await jobOf({ ...everything, ...fleet }, backend, keys);
  const location = "s3://recipes/fleets/inferencing/runs/000001";
  const work = { job, location, generation: 1, takers: 2, shares: [0, 1], program: ["sluice"] };
  const { text, command } = await render(work);
  return `$ ${command.join(" ")}\n${text}`;
}

const golden = (name: string) => `../../golden/fleets/${name}`;

describe("a fleet on another backend", () => {
  it("is an Indexed Job in the fleet's image", async () => {
    const env = { HF_TOKEN: { secret: "hugging-face", key: "token" } };
    const text = await rendered(
      renderIndexedJob,
      "kubernetes",
      { kubernetes: { env, envFrom: [{ secret: "store-keys" }] } },
      { registrySecret: "pull" },
    );
    await expect(text).toMatchFileSnapshot(golden("kubernetes.yaml"));
  });

  it("is a fleet of Code Engine by the tutorial's flags, whose commands are workers", async () => {
    const text = await rendered(
      renderFleet,
      "code-engine",
      {
        codeEngine: {
          stateStore: "fleet-task-store",
          subnetPool: "fleet-subnetpool",
          envFrom: ["hugging-face", "store-keys"],
        },
      },
      { registrySecret: "fleet-registry-secret" },
    );
    await expect(text).toMatchFileSnapshot(golden("code-engine.txt"));
  });

  it("is a task of SkyPilot in the fleet's image, with variables by their names", async () => {
    const software = { packageFolder: "/pkg", nodePackage: "node-of-pip==1" };
    const secrets = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    const text = await rendered((work) => renderSkyTask(work, software, []), "sky", {
      sky: { secrets, resources: { useSpot: true } },
    });
    await expect(text).toMatchFileSnapshot(golden("sky.yaml"));
  });

  it("tells workers that they are in the image, so that they start no container", async () => {
    const codeEngine = { stateStore: "s", subnetPool: "p" };
    const image = "example/tool:1";
    for (const [backend, keys] of [
      ["kubernetes", {}],
      ["code-engine", { codeEngine }],
      ["sky", {}],
    ] as const) {
      expect((await jobOf({ image, env: { A: "1" } }, backend, keys)).env, backend).toEqual({
        ...{ A: "1", SLUICE_INSIDE_IMAGE: image },
      });
    }
    // Workers in another image, or on the machine itself, start containers.
    for (const [backend, keys] of [
      ["kubernetes", { kubernetes: { image: "example/own:2" } }],
      ["code-engine", { codeEngine: { ...codeEngine, image: "example/own:2" } }],
      ["sky", { sky: { resources: { imageId: "docker:example/own:2" } } }],
      ["ray", {}],
      ["local", {}],
    ] as const) {
      expect((await jobOf({ image }, backend, keys)).env, backend).toEqual({});
    }
  });

  it("refuses by name what the backend cannot do", async () => {
    const image = "example/tool:1";
    const codeEngine = { stateStore: "s", subnetPool: "p" };
    const secret = { image, registrySecret: "pull" };
    const variable = { image, env: { HF_TOKEN: null } };
    const refusals: [fleet: object, backend: string, keys: JsonObject, said: RegExp][] = [
      [secret, "local", {}, /--registry-secret has no effect with backend local/],
      [secret, "ray", {}, /--registry-secret has no effect with backend ray/],
      [secret, "slurm", {}, /--registry-secret has no effect with backend slurm/],
      [secret, "sky", {}, /--registry-secret has no effect with backend sky/],
      [{ workingDirectory: "gone" }, "local", {}, /there is no folder .*gone \(field fleet.work/],
      [{ registrySecret: "pull" }, "kubernetes", {}, /has no effect without --image/],
      [{}, "kubernetes", {}, /backend kubernetes needs --image/],
      [{ image }, "code-engine", {}, /codeEngine.stateStore: /],
      [variable, "kubernetes", {}, /env.HF_TOKEN: .* kubernetes.env: \{ HF_TOKEN: \{ secret: /],
      [variable, "code-engine", { codeEngine }, /env.HF_TOKEN: .* codeEngine.envFrom/],
      // A secret's value is in no file, so it must come in the same way.
      [{ image, env: { KEY: "hf_abcdefgh" } }, "kubernetes", {}, /env.KEY: .* do not get KEY/],
    ];
    for (const [fleet, backend, keys, said] of refusals) {
      await expect(jobOf(fleet, backend, keys), String(said)).rejects.toThrow(said);
    }
  });
});
