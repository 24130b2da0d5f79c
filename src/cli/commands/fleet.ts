import type { Command } from "commander";
import type { CliIo } from "../io.ts";

/** `sluice fleet create|get|list|worker|task|logs|add|cancel|resume|delete`. */
export async function register(command: Command, io: CliIo): Promise<void> {
  const verbs = await Promise.all([
    import("./fleet/create.ts"),
    import("./fleet/get.ts"),
    import("./fleet/list.ts"),
    import("./fleet/worker.ts"),
    import("./fleet/task.ts"),
    import("./fleet/logs.ts"),
    import("./fleet/add.ts"),
    import("./fleet/cancel.ts"),
    import("./fleet/resume.ts"),
    import("./fleet/delete.ts"),
  ]);
  for (const verb of verbs) verb.register(command, io);
}
