import { openHostedEngine } from "../../../src/engines/host/client.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { systemRandom } from "../../../src/foundation/random.ts";
import { echoHostCommand } from "./echo-host.ts";

// Stands for a worker: hosts an engine, prints the host's pid, asks once a moment later: what the
// command line says, or something harmless.

const engine = await openHostedEngine({
  kind: "predictor",
  options: {},
  context: {
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    environment: process.env,
    hostCommand: echoHostCommand,
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
      prompt: process.argv[2] ?? "still here",
      onTooLong: "fail",
      parameters,
    },
    new AbortController().signal,
  );
  process.stdout.write(`${answers[0]?.text}\n`);
}, 300);
