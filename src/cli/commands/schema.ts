import type { Command } from "commander";
import { jobJsonSchema } from "../../run/job/json-schema.ts";
import { type CliIo, write } from "../io.ts";

/** `sluice schema`: the JSON Schema of the job file, for editors and checks. */
export function register(command: Command, io: CliIo): void {
  command.action(async () => {
    await write(io, `${JSON.stringify(jobJsonSchema(), null, 2)}\n`);
  });
}
