import { fileURLToPath } from "node:url";
import { packageFile } from "../../entry.ts";
import { systemClock } from "../../foundation/clock.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { type BackendContext, nodePackage, type OpenBackend } from "../context.ts";
import { joiningBackend } from "../joining/joining.ts";
import { assertSeen } from "../joining/places.ts";
import { SkyClient } from "./client.ts";
import { type Offer, rankOffers, readCatalog } from "./offers.ts";
import { acceleratorsOf, renderSkyMachine, renderSkyTask, type SkySoftware } from "./render.ts";

/** Managed jobs of SkyPilot, one a worker, on machines of any cloud. */
export function openSky({ environment }: BackendContext): OpenBackend {
  const client = new SkyClient({ environment, clock: systemClock });
  const packageFolder = fileURLToPath(new URL(".", packageFile("package.json")));
  const software: SkySoftware = { packageFolder: packageFolder.replace(/\/$/, ""), nodePackage };
  const offersFor = async (job: JobSpec): Promise<Offer[]> => {
    const { tokensPerSecond, resources = {} } = job.sky ?? {};
    if (tokensPerSecond === undefined) return [];
    const { useSpot, infra, instanceType, anyOf = [{}] } = resources;
    const common = { useSpot, infra, instanceType };
    const given = Object.entries(common).filter(([, value]) => value !== undefined);
    const choices = anyOf.map((choice) => ({ ...Object.fromEntries(given), ...choice }));
    const kinds = new Map(Object.entries(acceleratorsOf(job) ?? {}));
    const rows = await readCatalog(environment.HOME ?? "");
    return rankOffers(rows, kinds, choices, tokensPerSecond);
  };
  return joiningBackend({
    name: "sky",
    render: async (work) => renderSkyTask(work, software, await offersFor(work.job)),
    renderDev: async (job) => renderSkyMachine(job, software, await offersFor(job)),
    check: async (job) => assertSeen(job, () => false, "use s3://bucket/out"),
    client,
  });
}
