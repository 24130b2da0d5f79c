#!/usr/bin/env node
"use strict";
// Any Node that was ever released must be able to parse this file, so that it can say which Node
// is needed: no arrow functions, no const, no template literals, no trailing commas, no import().
var oldest = [22, 18];
var version = process.versions.node;
var parts = version.split(".").map(Number);
var needed = "error USAGE: Sluice needs Node 22.18 or newer, and this is Node ".concat(version);
var isTooOld = parts[0] < oldest[0] || (parts[0] === oldest[0] && parts[1] < oldest[1]);

// In a checkout, npm brings a Node along.
function cure() {
  var call = "run it by the Node of this checkout: ";
  try {
    return call.concat(require.resolve("node/bin/node"), " ", process.argv[1]);
  } catch (_error) {
    return "install a newer Node, or put one first in PATH";
  }
}

function refuse(lines) {
  process.stderr.write(lines.join("\n  hint: ").concat("\n"));
  process.exitCode = 64;
}

if (isTooOld) {
  refuse([needed, cure()]);
} else if (process.platform === "win32") {
  refuse(["error USAGE: Sluice does not run on Windows itself", "run it inside WSL2"]);
} else {
  require("./start.cjs");
}
