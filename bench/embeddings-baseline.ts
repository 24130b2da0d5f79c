import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { pathToFileURL } from "node:url";

// The bare library as its documentation shows it, with what everybody does by hand: texts sorted by
// length, cut into batches, the vectors put back into input order and written. Started by `fork`.

interface Package {
  env: { localModelPath: string; allowRemoteModels: boolean };
  pipeline(task: string, name: string, options: object): Promise<Extractor>;
}
type Extractor = (texts: string[], options: object) => Promise<{ tolist(): number[][] }>;

/** What the parent sends: where the model is, then what to compute. */
export type BaselineMessage =
  | { modulePath: string; modelPath: string; threads: number }
  | EmbedMessage;

interface EmbedMessage {
  inputPath: string;
  outputPath: string;
  rows: number;
}

let extract: Extractor;

process.on("message", async (message: BaselineMessage) => {
  if ("modulePath" in message) {
    const { modulePath, modelPath, threads } = message;
    const library = (await import(pathToFileURL(modulePath).href)) as Package;
    library.env.localModelPath = dirname(modelPath);
    library.env.allowRemoteModels = false;
    extract = await library.pipeline("feature-extraction", basename(modelPath), {
      dtype: "fp32",
      session_options: { intraOpNumThreads: threads, interOpNumThreads: 1 },
    });
    process.send!({ seconds: 0 });
    return;
  }
  const started = performance.now();
  await embed(message);
  process.send!({ seconds: (performance.now() - started) / 1000 });
});

async function embed({ inputPath, outputPath, rows }: EmbedMessage): Promise<void> {
  const lines = readFileSync(inputPath, "utf8").trimEnd().split("\n");
  const texts = lines.map((line) => (JSON.parse(line) as { text: string }).text);
  const places = texts.map((_, at) => at);
  places.sort((one, other) => texts[one]!.length - texts[other]!.length);
  const vectors: number[][] = [];
  for (let first = 0; first < places.length; first += rows) {
    const batch = places.slice(first, first + rows);
    const own = batch.map((place) => texts[place]!);
    const made = (await extract(own, { pooling: "mean", normalize: true })).tolist();
    for (const [at, place] of batch.entries()) vectors[place] = made[at]!;
  }
  const written = vectors.map((answer, id) => JSON.stringify({ id, text: texts[id], answer }));
  writeFileSync(outputPath, `${written.join("\n")}\n`);
}
