import { spawnSync } from "node:child_process";
import { userInfo } from "node:os";
import { installBeside } from "./installing.ts";

const packages = ["slurmctld", "slurmd", "slurm-client", "munge"];
const programs = ["slurmctld", "slurmd", "sbatch"];

// Without a configuration, some of them fail whatever they are asked.
const isThere = () => programs.every((name) => spawnSync(name, ["-V"]).error === undefined);

/** Why a Slurm of the tests cannot be started here; undefined if it can. */
export function missingSlurm(): string | undefined {
  if (process.platform !== "linux") return "the Slurm of the tests runs on Linux";
  if (!isThere()) return `Slurm is not installed: apt-get install ${packages.join(" ")}`;
  if (userInfo().uid !== 0) return "the Slurm of the tests is started as root";
  return undefined;
}

/**
 * Installs Slurm from the packages of Debian or Ubuntu for the tests, once, if this is root and apt
 * can; 3 MB. No service is started by it. Tests with Slurm skip where it is not there.
 */
function installSlurm(): void {
  if (process.platform !== "linux" || userInfo().uid !== 0 || isThere()) return;
  if (spawnSync("apt-get", ["--version"]).status !== 0) return;
  console.log("installing Slurm for the tests of backend slurm");
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const install = () =>
    spawnSync("apt-get", ["install", "-y", "--no-install-recommends", ...packages], { env });
  // The lists of packages may be missing or old.
  if (install().status === 0) return;
  spawnSync("apt-get", ["update"], { env });
  const { status, stderr } = install();
  if (status !== 0) console.error(`Slurm could not be installed: ${stderr}`);
}

export default installBeside(import.meta.filename);

if (import.meta.main) installSlurm();
