// Makes the tutorial's data in out/: a file for each recipe, batches that list them, and a command
// for each batch. Run it: node prepare.mjs
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const recipesOfBatch = 10;
const folder = join(import.meta.dirname, "out");
const input = join(folder, "input/inferencing");
mkdirSync(join(input, "recipes"), { recursive: true });
mkdirSync(join(input, "batches"), { recursive: true });

const lines = readFileSync(join(import.meta.dirname, "../recipes/recipes.jsonl"), "utf8");
const names = lines
  .trimEnd()
  .split("\n")
  .map((line) => {
    const name = `${JSON.parse(line).id}.json`;
    writeFileSync(join(input, "recipes", name), `${line}\n`);
    return name;
  });

// A line of a batch is a recipe and the file of its result.
const commands = [];
for (let start = 0; start < names.length; start += recipesOfBatch) {
  const batch = names.slice(start, start + recipesOfBatch);
  const listed = batch.map(
    (name) => `recipes/${name};${name.replace(/\.json$/, ".augmented.json")}`,
  );
  writeFileSync(join(input, "batches", `${commands.length}.txt`), `${listed.join("\n")}\n`);
  commands.push({ cmds: ["node", "app.mjs"], args: [`/input/batches/${commands.length}.txt`] });
}
const text = commands.map((command) => JSON.stringify(command)).join("\n");
writeFileSync(join(folder, "commands.jsonl"), `${text}\n`);
process.stdout.write(`${names.length} recipes in ${commands.length} batches\n`);
