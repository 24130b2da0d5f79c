import { join } from "node:path";
import { bucket, S3Server } from "../s3-server.ts";
import type { FarStore } from "./kill-round.ts";

/**
 * A real S3 server of this machine for runs that are killed, whose files can be looked at.
 *
 * @param conditional what the runs are told of it.
 */
export async function startS3Store(
  home: string,
  conditional: "if-none-match" | "none" = "if-none-match",
): Promise<FarStore & { stop(): Promise<void> }> {
  const server = await S3Server.start();
  const environment = {
    ...server.environment,
    SLUICE_HOME: home,
    SLUICE_STORE__CONDITIONAL: conditional,
  };
  return {
    outputOf: (name) => ({
      path: `s3://${bucket}/${name}/out`,
      folder: join(server.directory, bucket, name, "out"),
      spool: join(home, "spool"),
      environment,
    }),
    kill: () => server.kill(),
    startAgain: () => server.startAgain(),
    stop: () => server.stop(),
  };
}
