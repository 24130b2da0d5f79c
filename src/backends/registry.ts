import { SluiceError } from "../foundation/errors.ts";
import { oneOf } from "../foundation/suggest.ts";
import type { JobSpec } from "../run/job/schema.ts";
import type { BackendContext, OpenBackend } from "./context.ts";
import { openLocal } from "./local/open.ts";

export { engineSteps } from "./local/engine-steps.ts";
export { openInside, openWorkers, thisMachine, workerEnvironment } from "./local/open.ts";

/** Every backend, by its name in a job. */
const backends: {
  readonly [Name in JobSpec["backend"]]: (context: BackendContext) => OpenBackend;
} = {
  local: openLocal,
};

/** The backends of one call, each opened when a job first names it. */
export interface OpenBackends {
  /** The backend of a job. @throws SluiceError `JOB_INVALID` if there is none of that name. */
  of(job: { readonly backend: string }): OpenBackend;
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
  const open = (name: string) => {
    const known: Readonly<Record<string, (context: BackendContext) => OpenBackend>> = backends;
    if (Object.hasOwn(known, name)) return known[name]!(context);
    throw new SluiceError("JOB_INVALID", oneOf(name, Object.keys(known)), { field: "backend" });
  };
  return {
    of({ backend: name }) {
      const backend = opened.get(name) ?? open(name);
      opened.set(name, backend);
      return backend;
    },
    close() {
      for (const backend of opened.values()) backend.close();
    },
  };
}
