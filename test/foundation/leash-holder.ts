import { systemClock } from "../../src/foundation/clock.ts";
import { startLeashed } from "../../src/foundation/leashed-process.ts";

// Stands for a worker: starts a program on a leash, passes its output on, and stays.

const [command = "", ...args] = process.argv.slice(2);
const program = startLeashed(command, args, { environment: process.env, clock: systemClock });
program.stdout.pipe(process.stdout);
setInterval(() => {}, 1000);
