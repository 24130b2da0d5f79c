import { tmpdir } from "node:os";
import { inputStores } from "../src/data/sources/open.ts";
import { systemClock } from "../src/foundation/clock.ts";
import { systemRandom } from "../src/foundation/random.ts";

/** Inputs as those of a program without any variables, which finds no keys of stores. */
export const localInputs = inputStores({
  clock: systemClock,
  random: systemRandom,
  environment: {},
  temporaryDirectory: tmpdir(),
});
