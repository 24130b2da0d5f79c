import { chmodSync, mkdirSync, readFileSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import TestSequencer from "./scripts/test-sequencer.ts";

// Programs that tests start are compiled once, not at each start: a third of the time of some tests.
process.env.NODE_COMPILE_CACHE ??= join(tmpdir(), "node-compile-cache");

/** What folders of tests take at once, and much more. */
const minMemoryBytes = 4 * 2 ** 30;

/**
 * Folders of tests lie in memory, where there is room and programs may run: on a disk the same
 * tests take a sixth more of the processors. What is kept between calls stays where it is.
 */
function inMemory(folder = "/dev/shm"): { TMPDIR?: string } {
  try {
    const { bavail, bsize } = statfsSync(folder);
    const [mount] = readFileSync("/proc/mounts", "utf8").match(/^\S+ \/dev\/shm tmpfs .*$/m) ?? [];
    const isFit = mount !== undefined && !mount.includes("noexec");
    if (process.env.TMPDIR || !isFit || bavail * bsize < minMemoryBytes) return {};
    const TMPDIR = join(folder, "sluice-tests");
    mkdirSync(TMPDIR, { recursive: true });
    // Some tests become another user.
    chmodSync(TMPDIR, 0o1777);
    return { TMPDIR };
  } catch {
    return {};
  }
}

const integrationTest = (name: string) => `test/integration/${name}.test.ts`;

/** Tests with models that compute with every core, as users' models do. */
const modelTests = ["engine-measure", "recipe-answers"].map(integrationTest);

/** What they measure half a minute long is in `npm run test:long` alone. */
const longTests = process.env.TEST_SLUICE_LONG === "1" ? [] : [integrationTest("engine-measure")];

/**
 * The scripts install what is not there, beside tests that do without it. The first one builds the
 * server of the tests of object stores, if Go is there.
 */
const s3Server = "./scripts/versitygw.ts";

/** Installs Slurm for the tests of its backend where it is not there, if apt can. */
const slurm = "./scripts/slurm.ts";

/** Makes a Python with Ray for the tests of its backend where it is not there. */
const ray = "./scripts/ray.ts";

/** Installs OpenAI's client for Python for the tests of the server where it is not there. */
const openaiPython = "./scripts/openai-python.ts";

/** Fetches the OpenAPI of Kubernetes for the tests of manifests where it is not there, if Go can. */
const kubernetesOpenapi = "./scripts/kubernetes-openapi.ts";

/** Packs and installs the package, which tests that start programs start. */
const packed = "./test/packed-package.ts";

/**
 * Files at once where tests wait for programs and for time to pass: each keeps 0.3 of a core busy,
 * and five left a quarter of two cores idle.
 */
const waiting = 7;

interface Tier {
  name: string;
  include: string[];
  exclude?: string[];
  timeoutMs: number;
  /** Modules whose default function is called before the tests. */
  setup?: string[];
  /** Tiers of one group share the workers; groups come one after another. Default 0. */
  group?: number;
  /** Files at once; default 4: here and there one waits. */
  workers?: number;
  /**
   * False where files share modules, which are loaded once then: no file of these mocks a module or
   * leaves one changed. Default true.
   */
  isolate?: boolean;
}

/** One project a tier: `meta` is what `npm run check` runs, the rest makes up `npm test`. */
const tier = ({
  name,
  include,
  exclude = [],
  timeoutMs,
  setup = [],
  group = 0,
  workers = 4,
  isolate = true,
}: Tier) => ({
  test: {
    name,
    include,
    exclude,
    testTimeout: timeoutMs,
    hookTimeout: timeoutMs,
    // What is polled for comes when the machine gets to it: by default it has one second.
    expect: { poll: { timeout: timeoutMs / 2 } },
    globalSetup: setup,
    maxWorkers: workers,
    isolate,
    fsModuleCache: true,
    env: inMemory(),
    sequence: { groupOrder: group },
  },
});

export default defineConfig({
  test: {
    reporters: [
      "default",
      "./scripts/skip-reporter.ts",
      ["json", { outputFile: ".cache/vitest.json" }],
    ],
    sequence: { sequencer: TestSequencer },
    projects: [
      tier({
        name: "meta",
        include: ["test/meta/**/*.test.ts"],
        isolate: false,
        timeoutMs: 120_000,
      }),
      tier({
        name: "unit",
        // Whatever folder a test is put into, it runs; those with peers by `npm run test:peers`.
        include: ["test/!(meta|simulation|integration|peers)/**/*.test.ts"],
        setup: [s3Server, kubernetesOpenapi],
        isolate: false,
        timeoutMs: 20_000,
      }),
      tier({
        name: "simulation",
        include: ["test/simulation/**/*.test.ts"],
        timeoutMs: 600_000,
        // They compute while those beside them wait.
        ...{ group: 1, workers: waiting },
      }),
      tier({
        name: "integration",
        include: ["test/integration/**/*.test.ts"],
        exclude: modelTests,
        setup: [s3Server, slurm, ray, openaiPython, packed],
        isolate: false,
        timeoutMs: 600_000,
        ...{ group: 1, workers: waiting },
      }),
      // Threads that compute wait for one another: beside a neighbour they take 3 to 5 times as long.
      tier({
        name: "models",
        include: modelTests,
        exclude: longTests,
        setup: [packed],
        timeoutMs: 600_000,
        group: 2,
        workers: 1,
      }),
    ],
  },
});
