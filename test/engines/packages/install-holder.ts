import { npmCi } from "../../../src/engines/packages/npm.ts";
import { tryPython } from "../../../src/engines/packages/python.ts";

// Stands for Sluice: runs npm or Python in a folder, and stays as long as that does.

const [program = "", folder = ""] = process.argv.slice(2);
const context = { environment: process.env };
if (program === "npm") await npmCi(folder, context);
else await tryPython("python3", [], context);
