import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { Processes, ProcessIdentity } from "../run/coordinate/processes.ts";

/** Of all calls in this process. */
const ended = new Set<string>();

export function systemProcesses(pid: number, platform: string): Processes {
  const host = hostname();
  const bootId = readBootId(platform);
  const pidSpace = readPidSpace(pid, platform);
  let own: ProcessIdentity | undefined;
  const self = () => {
    own ??= { host, bootId, pidSpace, pid, startTime: startTimeOf(pid, platform) ?? "" };
    return own;
  };
  return {
    self,
    ended,
    look(identity) {
      if (!areNeighbours(identity, self())) return "elsewhere";
      return startTimeOf(identity.pid, platform) === identity.startTime ? "alive" : "dead";
    },
  };
}

/** Two machines, or two containers, may well have one name, and processes of one number. */
function areNeighbours(one: ProcessIdentity, other: ProcessIdentity): boolean {
  const places = ["host", "bootId", "pidSpace"] as const;
  const isSame = places.every((name) => one[name] === other[name] && one[name] !== "");
  return isSame && one.startTime !== "";
}

function readPidSpace(pid: number, platform: string): string {
  // No other system has them.
  if (platform !== "linux") return platform;
  try {
    // Else /proc is of another space, and its numbers are not ours.
    return readlinkSync("/proc/self") === String(pid) ? readlinkSync("/proc/self/ns/pid") : "";
  } catch {
    return "";
  }
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
