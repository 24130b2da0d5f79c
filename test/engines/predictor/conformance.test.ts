import { modelOptions } from "../../../src/engines/model-options.ts";
import { openEngine } from "../../../src/engines/registry.ts";
import { entryCommand } from "../../../src/entry.ts";
import { conformanceRequest, engineConformance } from "../../conformance/engine-conformance.ts";
import { engineContext } from "../engine-context.ts";
import { moduleFolder } from "./module-folder.ts";

const moduleFile = moduleFolder();
const failingRow = 999;

/** Says something of each request, as a model would, after `waitMs`. */
const module = moduleFile(`
  let waitMs = 0;
  export const load = ({ options }: any) => void (waitMs = options.waitMs);
  export async function predict(batch: any[]) {
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    return batch.map(({ index, messages, prompt, parameters }) => {
      if (index === ${failingRow}) return new Error("not this one");
      const words = (prompt ?? messages.at(-1).content).split(" ");
      const said = words.slice(0, parameters.maxNewTokens);
      return { text: said.join(" "), promptTokens: words.length, completionTokens: said.length };
    });
  }
`);

for (const limits of [{ maxBatchRows: 4 }, { maxBatchRows: "auto", replicas: 2 }]) {
  engineConformance(`predictor, ${JSON.stringify(limits)}`, async ({ isSlow }) => ({
    engine: await openEngine(
      modelOptions.parse({
        ...{ engine: "predictor", module, options: { waitMs: isSlow ? 50 : 0 } },
        ...limits,
      }),
      engineContext({
        environment: process.env,
        hostCommand: entryCommand("engines/host/main", process.execPath),
      }),
    ),
    isDeterministic: true,
    failing: { request: conformanceRequest(failingRow), code: "PREDICTION_FAILED" },
  }));
}
