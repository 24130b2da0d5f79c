import { SluiceError } from "../foundation/errors.ts";
import { lazily } from "../foundation/lazily.ts";
import { oneOf } from "../foundation/suggest.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { type BackendContext, type OpenBackend, rayDashboard } from "./context.ts";
import { openLocal } from "./local/open.ts";

export { engineSteps } from "./local/engine-steps.ts";
export {
  type DeviceShares,
  deviceShares,
  openInside,
  openWorkers,
  thisMachine,
  workerEnvironment,
} from "./local/open.ts";

/** What of a job says where it runs. */
export type NamingJob = Pick<Partial<JobSpec>, "ray"> & { readonly backend: string };

/** Every backend, by its name in a job. Their code is loaded with the first job that names them. */
const backends: {
  readonly [Name in JobSpec["backend"]]: (context: BackendContext, job: NamingJob) => OpenBackend;
} = {
  local: openLocal,
  ray(context, job) {
    const dashboard = rayDashboard(job, context.environment);
    if (dashboard === undefined) {
      return later("ray", async () => (await import("./ray/open.ts")).openRay(context));
    }
    const open = async () => (await import("./ray/outside.ts")).openRayOutside(context, dashboard);
    return {
      ...scheduledLater("ray", open),
      delegate: async (...given) => (await open()).delegate!(...given),
    };
  },
  slurm: (context) =>
    scheduledLater("slurm", async () => (await import("./slurm/open.ts")).openSlurm(context)),
  kubernetes: (context) =>
    scheduledLater("kubernetes", async () =>
      (await import("./kubernetes/open.ts")).openKubernetes(context),
    ),
  sky: (context) =>
    scheduledLater("sky", async () => (await import("./sky/open.ts")).openSky(context)),
  "code-engine": (context) =>
    scheduledLater("code-engine", async () =>
      (await import("./code-engine/open.ts")).openCodeEngine(context),
    ),
};

/** What shows the machines of backends that have no names for kinds of them. */
const machineHints: { readonly [Name in Exclude<JobSpec["backend"], "code-engine">]: string } = {
  local: "sluice doctor shows this machine; --cpu, --memory and --gpu book a part of it",
  ray: "ray status shows the nodes; --cpu, --memory and --gpu book a part of one",
  slurm: "sinfo -o '%P %c %m %G' shows partitions; slurm.partition of a job names one",
  kubernetes: "kubectl get nodes shows machines; kubernetes.nodeSelector of a job names some",
  sky: "sky show-gpus shows machines; --gpu, --cpu and --memory choose the cheapest that fits",
};

/**
 * The kinds of machines that a job may name.
 *
 * @throws SluiceError `USAGE` for backends without.
 */
export async function workerProfiles(backend: string) {
  if (backend === "code-engine") return (await import("./code-engine/render.ts")).workerProfiles();
  const hints: Readonly<Record<string, string>> = machineHints;
  if (!Object.hasOwn(hints, backend)) {
    throw new SluiceError("USAGE", `--backend ${oneOf(backend, Object.keys(backends))}`);
  }
  const detail = `backend ${backend} has no worker profiles`;
  throw new SluiceError("USAGE", detail, { hint: hints[backend] });
}

type Load = () => Promise<OpenBackend>;

/** A backend that is loaded once something is asked of it: most calls need the local one alone. */
function later(name: string, load: Load): OpenBackend {
  let opened: Promise<OpenBackend> | undefined;
  const open = () => (opened ??= load());
  return {
    name,
    startAhead(job) {
      void open().then((backend) => backend.startAhead(job));
    },
    close() {
      void opened?.then((backend) => backend.close());
    },
    check: async (...given) => (await open()).check(...given),
    prepare: async (...given) => (await open()).prepare(...given),
    workersFor: async (...given) => (await open()).workersFor(...given),
    run: async (run) => (await open()).run(run),
  };
}

function scheduledLater(name: string, load: Load): OpenBackend {
  const open = lazily(load);
  const scheduled = async () => (await open()).scheduled!;
  return {
    ...later(name, open),
    scheduled: {
      render: async (...given) => (await scheduled()).render(...given),
      look: async (...given) => (await scheduled()).look(...given),
      cancel: async (...given) => (await scheduled()).cancel(...given),
      logs: async (...given) => (await scheduled()).logs(...given),
    },
  };
}

/** The backends of one call, each opened when a job first names it. */
export interface OpenBackends {
  /** The backend of a job. @throws SluiceError `JOB_INVALID` if there is none of that name. */
  of(job: NamingJob): OpenBackend;
  /** Ends what was started ahead and not used. */
  close(): void;
}

/**
 * Opens backends by their names.
 *
 * @example
 * const backends = openBackends(context);
 * const { workers } = await backends.of(job).workersFor(job, rows);
 */
export function openBackends(context: BackendContext): OpenBackends {
  const opened = new Map<string, OpenBackend>();
  const open = (job: NamingJob) => {
    const known: Readonly<Record<string, (typeof backends)["local"]>> = backends;
    const { backend: name } = job;
    if (Object.hasOwn(known, name)) return known[name]!(context, job);
    throw new SluiceError("JOB_INVALID", oneOf(name, Object.keys(known)), { field: "backend" });
  };
  return {
    of(job) {
      const name = [job.backend, rayDashboard(job, context.environment)].join(" ");
      const backend = opened.get(name) ?? open(job);
      opened.set(name, backend);
      return backend;
    },
    close() {
      for (const backend of opened.values()) backend.close();
    },
  };
}
