"use strict";
// Chooses between the sources of a checkout and the built files of an installed package.
const { existsSync } = require("node:fs");
const { enableCompileCache } = require("node:module");
const { join } = require("node:path");
const { pathToFileURL } = require("node:url");

// Compiled code is kept between calls (NODE_COMPILE_CACHE names the folder): it halves the start.
enableCompileCache?.();

const root = join(__dirname, "..");
const source = join(root, "src/cli/main.ts");

function refuse(error) {
  process.stderr.write(`error INTERNAL: Sluice could not be loaded\n${error?.stack ?? error}\n`);
  process.exitCode = 70;
}

if (existsSync(source)) {
  import(pathToFileURL(source).href).catch(refuse);
} else {
  try {
    require("../dist/cli/main.cjs");
  } catch (error) {
    refuse(error);
  }
}
