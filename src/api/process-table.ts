import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Processes, ProcessIdentity } from "../run/coordinate/processes.ts";

/** The processes of this machine. */
export function systemProcesses(pid: number, platform: string): Processes {
  const host = hostname();
  const bootId = readBootId(platform);
  let own: ProcessIdentity | undefined;
  return {
    self() {
      own ??= { host, bootId, pid, startTime: startTimeOf(pid, platform) ?? "" };
      return own;
    },
    look(identity) {
      if (identity.host !== host) return "elsewhere";
      if (identity.bootId !== bootId) return "dead";
      return startTimeOf(identity.pid, platform) === identity.startTime ? "alive" : "dead";
    },
  };
}

function readBootId(platform: string): string {
  try {
    if (platform === "linux") return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return execFileSync("sysctl", ["-n", "kern.boottime"], { encoding: "utf8" }).trim();
  } catch {
    return "";
  }
}

/** When a process started, in whatever unit the system has; undefined when there is none. */
function startTimeOf(pid: number, platform: string): string | undefined {
  try {
    if (platform === "linux") {
      // Field 22, counted after the name, which may hold spaces and brackets.
      const text = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      return fields[0] === "Z" ? undefined : fields[19];
    }
    const text = execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" });
    return text.trim() || undefined;
  } catch {
    return undefined;
  }
}
