import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isLong } from "./long.ts";
import { missingS3Server } from "./s3-server.ts";

/** A backend whose client a program stands in for: `test/fakes/cloud-program.ts`. */
export type Cloud = "sky" | "code-engine";

/** The clients of clouds. */
export const clients = { sky: "sky", "code-engine": "ibmcloud" } as const;

/** Every cloud, for tests of what its client does. */
export const clouds = Object.keys(clients) as Cloud[];

/** One cloud, or all of them in `npm run test:long`, for tests of what is the same for all. */
export const cloudOrAll = (cloud: Cloud): Cloud[] => (isLong ? clouds : [cloud]);

/** Skips a test of clouds where their stand-ins cannot work. */
export function skipWithoutClouds(context: {
  skip(condition: boolean, note?: string): void;
}): void {
  context.skip(missingS3Server !== undefined, missingS3Server);
  context.skip(process.platform !== "linux", "the stand-in starts workers by setsid of Linux");
}

/** A machine that a cloud was asked for. */
interface StartedMachine {
  id: number;
  name: string;
  pid: number;
  /** The command line that asked for it. */
  words: string[];
}

/** Puts the client of a cloud into a folder: its machines are processes of this one. */
export function cloudClient(folder: string, cloud: Cloud) {
  const state = join(folder, "state");
  for (const made of [state, join(folder, "bin")]) mkdirSync(made);
  const client = clients[cloud];
  const stand = join(import.meta.dirname, "fakes/cloud-program.ts");
  const script = `#!/bin/sh\nexec '${process.execPath}' '${stand}' ${client} "$@"\n`;
  writeFileSync(join(folder, "bin", client), script, { mode: 0o755 });
  const read = (file: string) => readFileSync(join(state, file), "utf8").trim();
  const records = (): StartedMachine[] =>
    readdirSync(state)
      .filter((file) => file.endsWith(".json"))
      .map((file) => JSON.parse(read(file)))
      .sort((a, b) => a.id - b.id);
  const workerPid = (id: number) => Number(read(`${id}.worker`));
  return {
    ...{ records, workerPid },
    environment: { CLOUD_STATE: state, PATH: `${join(folder, "bin")}:${process.env.PATH}` },
    /** The last exit codes of workers; undefined for those that the cloud ended before they did. */
    lastCodes: () =>
      records().map(({ id }) =>
        existsSync(join(state, `${id}.last`)) ? Number(read(`${id}.last`)) : undefined,
      ),
    /** True once no machine is left. */
    isGone: () =>
      records().every(({ id, pid }) => [pid, workerPid(id)].every((it) => !isAlive(it))),
  };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
