import { openHostedEngine } from "../../../src/engines/host/client.ts";
import { entryCommand } from "../../../src/entry.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { systemRandom } from "../../../src/foundation/random.ts";

// Stands for a worker: hosts an engine, prints the host's pid, asks once a moment later: what the
// command line says, or something harmless.

const engine = await openHostedEngine({
  kind: "module",
  options: { module: new URL("./hosted-echo.ts", import.meta.url).href },
  context: {
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    environment: process.env,
    hostCommand: entryCommand("engines/host/main", process.execPath),
  },
});
process.stdout.write(`${engine.choices?.pid}\n`);
setTimeout(async () => {
  const parameters = {
    ...greedyParameters,
    maxNewTokens: 1,
    seed: 0,
  };
  const { answers } = await engine.infer(
    {
      index: 0,
      promptName: "p",
      prompt: process.argv[2] ?? "still here",
      onTooLong: "fail",
      parameters,
    },
    new AbortController().signal,
  );
  process.stdout.write(`${answers[0]?.text}\n`);
}, 300);
