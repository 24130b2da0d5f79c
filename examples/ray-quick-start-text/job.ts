// Two rows through a text-generation model, and a look at the first result: the quick start of Ray
// Data, in Sluice. From the project's root, once it is built:
// node examples/ray-quick-start-text/job.ts
import { dataset, generate, type StageModel } from "sluice";

// A name from the catalog is fetched on first use (145 MB). `TEXT_MODEL=fake` answers at random.
const model: StageModel =
  process.env.TEXT_MODEL === "fake" ? { engine: "fake" } : "smollm2-135m-instruct";

// A value that is not an object becomes a row {data: value}.
const prompts = dataset.from(["Complete this: for a moment,", "Complete this: once upon a time,"]);

const answers = prompts.pipe(
  generate({ model, prompt: "{{ data }}", generation: { maxNewTokens: 24 }, field: "output" }),
);

await answers.show(1);
