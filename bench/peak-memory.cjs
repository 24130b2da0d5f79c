"use strict";
// Loaded into every process of a measured program: notes the most memory that it ever held.
const { appendFileSync, readFileSync } = require("node:fs");

process.on("exit", () => appendFileSync(process.env.PEAK_MEMORY, `${peakBytes()}\n`));

// maxRSS of a child counts what its parent held when it was started; VmHWM does not.
function peakBytes() {
  try {
    const status = readFileSync("/proc/self/status", "utf8");
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)[1]) * 1024;
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}
