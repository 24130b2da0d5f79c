import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";
import { packageFile } from "../../entry.ts";
import { assignedVariable } from "../devices.ts";
import type { ReplicaShare } from "../replicas.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * What a replica of the program has as its environment: that of the worker, its own share of the
 * machine, and the folder of Sluice's Python modules.
 */
export function programEnvironment(
  { environment: own, devices }: ReplicaShare,
  replica: number,
  environment: Environment,
): Environment {
  const modules = fileURLToPath(packageFile("python"));
  return {
    ...environment,
    ...own,
    ...(devices.length > 0 && { [assignedVariable]: `cuda:${devices.join(",")}` }),
    SLUICE_REPLICA: String(replica),
    // Behind the user's own modules.
    PYTHONPATH: [environment.PYTHONPATH, modules].filter(Boolean).join(delimiter),
    // A script that prints its answers without a flush would hold them back.
    PYTHONUNBUFFERED: "1",
  };
}
