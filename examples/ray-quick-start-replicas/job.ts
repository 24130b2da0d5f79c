// 10,000 rows, repartitioned over 20 replicas of a predictor. From the project's root, once it is
// built: node examples/ray-quick-start-replicas/job.ts
import { dataset } from "sluice";

const rows = Array.from({ length: 10_000 }, (_, id) => ({ id, value: id / 10_000 }));

/** What `Predictor` of predictor.ts makes of a row. */
interface Predicted {
  id: number;
  value: number;
  prediction: number;
  replica: number;
}

const predicted = dataset
  .from(rows)
  .repartition(20)
  // In a module, so that each replica is a process of its own, which loads its model once.
  .mapBatches<Predicted>(`${new URL("./predictor.ts", import.meta.url)}#Predictor`, {
    batchSize: 100,
    concurrency: 20,
    constructorArgs: [{ slope: 2, offset: 1 }],
  });

const { summary, stages } = await predicted.run({ output: process.argv[2] ?? "out" });
console.log(summary.rows.results, "results by", stages[0]?.replicas, "replicas in", summary.output);
