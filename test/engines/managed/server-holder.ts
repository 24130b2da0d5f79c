import { modelOptions } from "../../../src/engines/model-options.ts";
import { openEngine } from "../../../src/engines/registry.ts";
import { engineContext } from "../engine-context.ts";
import { request } from "./managed-engines.ts";

// Stands for a worker: starts the server of the model that its argument describes, says so, and has
// one request in flight for ever. On Ctrl-C, which workers take no notice of, it asks once more.

const never = new AbortController().signal;
const model = modelOptions.parse(JSON.parse(process.argv[2]!));
const engine = await openEngine(model, engineContext({ environment: process.env }));
process.on("SIGINT", async () => {
  const { answers } = await engine.infer(request("still here"), never);
  process.stdout.write(`${answers[0]?.text}\n`);
});
const asked = engine.infer(request("hang"), never);
process.stdout.write("ready\n");
await asked;
