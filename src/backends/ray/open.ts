import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { storeVariables } from "../../data/s3/store-options.ts";
import { describeEngine } from "../../engines/registry.ts";
import { packageFile } from "../../entry.ts";
import { systemClock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { dispatcherOf } from "../../run/dispatch/dispatcher-of.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import {
  type BackendContext,
  type Environment,
  nodePackage,
  type OpenBackend,
} from "../context.ts";
import { workerEnvironment } from "../local/worker-process.ts";
import { RayBridge } from "./bridge.ts";
import { HostPool } from "./host-pool.ts";
import { assertVisible, rayWorkers } from "./placement.ts";

/** The releases of Ray that the bridge works with, as pip names them. */
export const rayRelease = "ray>=2.49,<3";
const defaultSilenceMs = 3000;
const defaultPython = "python3";

/** Workers on the nodes of a Ray cluster, which this process joins as a driver. */
export function openRay(context: BackendContext): OpenBackend {
  let connection: ReturnType<typeof connect> | undefined;
  /** One connection serves all steps of a call. */
  const bridgeOf = async (job: JobSpec, signal?: AbortSignal): Promise<RayBridge> => {
    connection ??= connect(job, context);
    return await untilOpen(await connection, signal);
  };
  return {
    name: "ray",
    startAhead(job) {
      // Whoever needs it gets its error.
      if (job) bridgeOf(job).catch(() => {});
    },
    close() {
      connection?.then(
        ({ bridge }) => bridge.close(),
        () => {},
      );
      connection = undefined;
    },
    async check(job, { signal }) {
      const { nodes } = await bridgeOf(job, signal);
      assertVisible(job, nodes);
      const { assertEnvironment } = describeEngine(job.model);
      assertEnvironment?.(job.model, passedOn(job, context.environment));
    },
    // Each worker prepares its own machine before it is ready.
    async prepare() {},
    workersFor: async (job, rows, signal) =>
      rayWorkers(job, rows, (await bridgeOf(job, signal)).nodes),
    async run(run) {
      const { job, location, context: runContext, signal } = run;
      const stop = new AbortController();
      const bridge = await bridgeOf(job);
      const generation = String(runContext.plan.generation);
      const { workingDirectory } = await context.engineContext(context.environment, context.logger);
      const pool = new HostPool({
        ...{ bridge, run },
        worker: {
          arguments: ["worker", location, "--stdio", "--prepare", "--generation", generation],
          environment: passedOn(job, context.environment),
          directory: workingDirectory,
        },
        onFault: (error) => stop.abort(error),
      });
      void bridge.ended.then((error) => error && stop.abort(error));
      const signals = AbortSignal.any([signal, stop.signal]);
      const dispatcher = dispatcherOf(
        { ...run, signal: signals },
        (_, unwanted) => pool.start(unwanted),
        { releasesIdle: true },
      );
      try {
        return await dispatcher.run();
      } finally {
        pool.close();
      }
    },
  };
}

/**
 * Ray looks for a cluster that does not answer for half a minute and more: a stop ends that.
 *
 * @throws SluiceError why there is no connection; the signal's reason.
 */
async function untilOpen(
  { bridge, ready }: Awaited<ReturnType<typeof connect>>,
  signal: AbortSignal | undefined,
): Promise<RayBridge> {
  const stop = () => bridge.close();
  signal?.throwIfAborted();
  signal?.addEventListener("abort", stop);
  try {
    await ready;
    return bridge;
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

async function connect(job: JobSpec, context: BackendContext) {
  const { environment, logger, executable } = context;
  const { address: given, software = "auto", runtimeEnv = {}, ...ray } = job.ray ?? {};
  // In a job that was submitted from outside, Ray says where the cluster is.
  const address = environment.SLUICE_RAY_JOB === undefined ? given : undefined;
  const { python = defaultPython, maxSilenceMs = defaultSilenceMs } = ray;
  const { homeDirectory } = await context.engineContext(environment, logger);
  const folder = fileURLToPath(packageFile("python"));
  const bridge = new RayBridge({
    command: [python, "-m", "sluice_ray"],
    environment: {
      ...environment,
      PYTHONPATH: [folder, environment.PYTHONPATH].filter(Boolean).join(":"),
      PYTHONUNBUFFERED: "1",
      PYTHONDONTWRITEBYTECODE: "1",
    },
    ...{ clock: systemClock, logger },
  });
  const ready = bridge
    .open({
      ...{ address, software, runtimeEnv, nodePackage },
      staging: join(homeDirectory, "ray"),
      nodes: [executable],
      silenceSeconds: maxSilenceMs / 1000,
    })
    .catch((thrown: unknown) => {
      if (asSluiceError(thrown).code !== "RAY_MISSING") throw thrown;
      const install = `${python} -m pip install "${rayRelease}"`;
      throw new SluiceError("RAY_MISSING", python, {
        hint: `${install}, or name a Python that has it by ray.python`,
      });
    });
  ready.catch(() => {});
  return { bridge, ready };
}

/** Variables that Sluice itself and its libraries read for stores, models, servers and tracing. */
const passedNames = /^(AWS_|HF_|OTEL_|SLUICE_STORE__|R2_|CLOUDFLARE_ACCOUNT_ID$|GOOGLE_|GCS_)/;
/** Of those, the ones that name files of the caller's machine. */
const namesFile = /_(FILE|PATH|HOME|CACHE|BUNDLE|CERTIFICATE|CLIENT_KEY|APPLICATION_CREDENTIALS)$/;

/** The environment that workers get besides that of their node. */
function passedOn(job: JobSpec, environment: Environment): Record<string, string> {
  const keys = describeEngine(job.model).sendsKeys?.(job.model) ?? [];
  const keyNames = keys.map(({ variable }) => variable);
  const named = new Set([...keyNames, ...Object.keys(job.env), "SLUICE_RAY_FILES"]);
  const own = workerEnvironment(environment, {
    ...storeVariables(job.store ?? {}, environment),
    ...job.env,
  });
  return Object.fromEntries(
    Object.entries(own).flatMap(([name, value]): [string, string][] => {
      const isPassed = named.has(name) || (passedNames.test(name) && !namesFile.test(name));
      return value !== undefined && isPassed ? [[name, value]] : [];
    }),
  );
}
