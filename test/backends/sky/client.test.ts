import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { SkyClient } from "../../../src/backends/sky/client.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { scratchFolder } from "../../run/whole-run.ts";

/** A client whose `sky` fails with these words, as SkyPilot 0.13 does. */
function failing(words: string): SkyClient {
  const folder = scratchFolder();
  mkdirSync(join(folder, "bin"));
  const lines = `#!/bin/sh\necho 'sky.exceptions.ClusterNotUpError: ${words}' >&2\nexit 1\n`;
  writeFileSync(join(folder, "bin/sky"), lines, { mode: 0o755 });
  const PATH = `${join(folder, "bin")}:${process.env.PATH}`;
  return new SkyClient({ clock: systemClock, environment: { PATH } });
}

const run = { location: "s3://bucket/out", job: {} as never, submissions: [] };

it("an account without a controller has no workers", async () => {
  expect(await failing("No in-progress managed jobs.").look(run)).toEqual([]);
});

it("a controller that is not reached says nothing of workers", async () => {
  const words = "Failed to connect to jobs controller, please try again later.";
  await expect(failing(words).look(run)).rejects.toThrow(words);
});
