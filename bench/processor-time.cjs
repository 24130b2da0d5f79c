"use strict";
// Loaded into every process of a measured program: notes the processor time that it took.
const { appendFileSync } = require("node:fs");

process.on("exit", () => {
  const { user, system } = process.cpuUsage();
  appendFileSync(process.env.PROCESSOR_TIME, `${(user + system) / 1e6}\n`);
});
