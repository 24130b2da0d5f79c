import { dataMutations } from "./data.ts";
import { enginesMutations } from "./engines.ts";
import type { Mutation } from "./mutation.ts";
import { runMutations } from "./run.ts";

/** All of them. */
export const mutations: readonly Mutation[] = [
  ...runMutations,
  ...enginesMutations,
  ...dataMutations,
];
