import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** What `nvidia-smi` says of a machine with three GPUs of two kinds. */
export const threeGpus = [
  "0, GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, NVIDIA L40S, 46068 MiB",
  "1, GPU-5e1b6a08-0f6f-11ee-be56-0242ac120002, NVIDIA L40S, 46068 MiB",
  "2, GPU-b1c2d3e4-f5a6-4711-8899-aabbccddeeff, NVIDIA A100-SXM4-80GB, 81920 MiB",
];

/**
 * A `nvidia-smi` that says these lines, in a folder for the `PATH`. Anything but the listing of the
 * columns that it stands in for it refuses, as the real one does with what it does not know.
 *
 * @param use lines of the use of each GPU; none: these columns are refused.
 * @param driver lines of driver version and compute capability; none: these columns are refused.
 */
export function standInDriver(
  lines: readonly string[],
  exitCode = 0,
  driver: readonly string[] = [],
  use: readonly string[] = [],
): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-driver-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const asked = "--query-gpu=index,uuid,name,memory.total --format=csv,noheader";
  const askedUse =
    "--query-gpu=index,memory.used,memory.total,utilization.gpu --format=csv,noheader,nounits";
  const askedDriver = "--query-gpu=driver_version,compute_cap --format=csv,noheader";
  const script = [
    "#!/bin/sh",
    ...driver.map((line) => `[ "$*" = "${askedDriver}" ] && echo "${line}"`),
    ...(driver.length > 0 ? [`[ "$*" = "${askedDriver}" ] && exit 0`] : []),
    ...use.map((line) => `[ "$*" = "${askedUse}" ] && echo "${line}"`),
    ...(use.length > 0 ? [`[ "$*" = "${askedUse}" ] && exit 0`] : []),
    `[ "$*" = "${asked}" ] || { echo "not a valid field to query"; exit 2; }`,
    ...lines.map((line) => `echo "${line}"`),
    `exit ${exitCode}`,
  ];
  writeFileSync(join(folder, "nvidia-smi"), `${script.join("\n")}\n`, { mode: 0o755 });
  return folder;
}
