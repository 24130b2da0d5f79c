import { pathToFileURL } from "node:url";

// A bare loop over node-llama-cpp as its documentation shows it, with threads set right: the
// default scheduler, the default environment. Started by `fork`, told what to do by messages.

interface Package {
  getLlama(options: object): Promise<{ loadModel(options: object): Promise<Model> }>;
}
interface Model {
  tokenize(text: string): number[];
  createContext(options: object): Promise<{ getSequence(): Sequence }>;
}
interface Sequence {
  clearHistory(): Promise<void>;
  evaluate(tokens: number[], options: object): AsyncIterable<number>;
}

/** What the parent sends: where the files are, then how much to compute. */
export type BaselineMessage =
  | { modulePath: string; modelPath: string; threads: number; sequences: number }
  | { prompts: string[]; maxNewTokens: number };

let model: Model;
let sequences: Sequence[];

process.on("message", async (message: BaselineMessage) => {
  if ("modulePath" in message) {
    const { modulePath, modelPath, threads } = message;
    const library = (await import(pathToFileURL(modulePath).href)) as Package;
    const llama = await library.getLlama({ gpu: "auto", build: "never", maxThreads: threads });
    model = await llama.loadModel({ modelPath });
    const shape = { sequences: message.sequences, contextSize: 512, batchSize: 512, threads };
    const context = await model.createContext(shape);
    sequences = Array.from({ length: message.sequences }, () => context.getSequence());
    process.send!({ ready: true });
    return;
  }
  const started = performance.now();
  const counts = message.prompts.map(async (prompt, at) => {
    const sequence = sequences[at]!;
    await sequence.clearHistory();
    let count = 0;
    const tokens = model.tokenize(prompt);
    for await (const _token of sequence.evaluate(tokens, { temperature: 0, topK: 0, topP: 1 })) {
      if (++count >= message.maxNewTokens) break;
    }
    return count;
  });
  const tokens = (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  process.send!({ tokens, seconds: (performance.now() - started) / 1000 });
});
