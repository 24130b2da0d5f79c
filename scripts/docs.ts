// `npm run docs`: writes every file that follows from the schema and the error table.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { generatedFiles, root } from "./generated-docs.ts";

for (const [path, text] of generatedFiles()) {
  mkdirSync(dirname(`${root}${path}`), { recursive: true });
  writeFileSync(`${root}${path}`, text);
  process.stdout.write(`wrote ${path}\n`);
}
