import { expectTypeOf, it } from "vitest";
import type { z } from "zod";
import type { JobInput } from "../../../src/run/job/job-input.ts";
import type { JobModelOpenai } from "../../../src/run/job/model-input.ts";
import type { jobShape } from "../../../src/run/job/schema.ts";

type OfSchema = z.input<typeof jobShape>;

it("the type of a job as it is written takes what the schema takes, and nothing else", () => {
  expectTypeOf<JobInput extends OfSchema ? true : false>().toEqualTypeOf<true>();
  expectTypeOf<OfSchema extends JobInput ? true : false>().toEqualTypeOf<true>();
  expectTypeOf<keyof JobInput>().toEqualTypeOf<keyof OfSchema>();
  expectTypeOf<JobModelOpenai["engine"]>().toEqualTypeOf<"openai">();
  type Engines<Job extends { model: { engine: string } }> = Job["model"]["engine"];
  expectTypeOf<Engines<JobInput>>().toEqualTypeOf<Engines<OfSchema>>();
});
