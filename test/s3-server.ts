import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installed } from "../scripts/installing.ts";
import { findVersitygw } from "../scripts/versitygw.ts";
import type { StorageContext } from "../src/data/storage/open.ts";
import { systemClock } from "../src/foundation/clock.ts";
import { systemRandom } from "../src/foundation/random.ts";
import { freePort } from "./free-ports.ts";

await installed("versitygw");

/** Why the tests of object stores cannot run here; undefined where they can. */
export const missingS3Server: string | undefined = findVersitygw().missing;

/** The one bucket of each server. */
export const bucket = "sluice-tests";

const credentials = { AWS_ACCESS_KEY_ID: "testkey", AWS_SECRET_ACCESS_KEY: "testsecret" };

/** A real S3 server of this machine, with one bucket, whose objects are files of `directory`. */
export class S3Server {
  /** Folder of its objects: `directory/sluice-tests/KEY`. */
  readonly directory: string;
  readonly #root: string;
  readonly #port: number;
  #process: ChildProcess | undefined;

  private constructor(root: string, port: number) {
    this.#root = root;
    this.#port = port;
    this.directory = join(root, "objects");
    mkdirSync(join(this.directory, bucket), { recursive: true });
    mkdirSync(join(root, "spool"));
  }

  static async start(): Promise<S3Server> {
    const server = new S3Server(mkdtempSync(join(tmpdir(), "sluice-s3-")), await freePort());
    await server.startAgain();
    return server;
  }

  /** The id of its process, while it runs. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  get address(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** What a program needs to reach it. */
  get environment(): Record<string, string> {
    return { ...credentials, AWS_ENDPOINT_URL_S3: this.address, AWS_REGION: "us-east-1" };
  }

  /** What opening a storage needs to reach it, or a proxy before it. */
  context(endpoint: string = this.address): StorageContext {
    return {
      environment: this.environment,
      clock: systemClock,
      random: systemRandom,
      spoolDirectory: join(this.#root, "spool"),
      store: { endpoint },
    };
  }

  /** A place in the bucket. */
  location(prefix: string): string {
    return `s3://${bucket}/${prefix}`;
  }

  /** Starts it anew after `kill`, on the same port, with what it had. */
  async startAgain(): Promise<void> {
    const address = `127.0.0.1:${this.#port}`;
    const options = ["--quiet", "--keep-alive", "posix", this.directory];
    const child = spawn(findVersitygw().program!, ["--port", address, ...options], {
      env: { ...process.env, ROOT_ACCESS_KEY: "testkey", ROOT_SECRET_KEY: "testsecret" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    child.stderr!.on("data", (chunk: Buffer) => {
      said += chunk.toString();
    });
    this.#process = child;
    // Nothing is left behind by a program that ends before it stops this.
    const endWithUs = () => void child.kill("SIGKILL");
    process.once("exit", endWithUs);
    child.once("exit", () => process.off("exit", endWithUs));
    while (!(await isListening(this.#port))) {
      if (child.exitCode !== null) throw new Error(`versitygw ended: ${said}`);
    }
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#root, { recursive: true, force: true });
  }
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    // The next look comes when the server had a moment.
    await new Promise((resolve) => setTimeout(resolve, 20));
    return false;
  } finally {
    socket.destroy();
  }
}
