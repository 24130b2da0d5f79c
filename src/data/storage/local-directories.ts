import { type FileHandle, mkdir, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "./local-errors.ts";

/** Directories remembered as made; beyond it the memory starts anew. */
const maxRemembered = 10_000;
/** Times that a directory is made while what is above it comes and goes. */
const maxTries = 5;

/** Makes directories once, and makes their names survive a power loss. */
export class LocalDirectories {
  readonly #durable: boolean;
  readonly #made = new Map<string, Promise<void>>();
  /** Syncs under way, and those that begin after them, by directory. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #waiting = new Map<string, Promise<void>>();

  constructor(durable: boolean) {
    this.#durable = durable;
  }

  /** Resolves when `directory` and all above it exist. */
  make(directory: string): Promise<void> {
    const known = this.#made.get(directory);
    if (known) return known;
    if (this.#made.size >= maxRemembered) this.#made.clear();
    const making = this.#make(directory);
    this.#made.set(directory, making);
    making.catch(() => this.#made.delete(directory));
    return making;
  }

  /** To be called when `directory` turned out to be gone. */
  forget(directory: string): void {
    this.#made.delete(directory);
  }

  /**
   * Resolves when the names in `directory` survive a power loss. Calls that come while one is under
   * way share the next one: a hundred files that appear together cost two syncs.
   */
  sync(directory: string): Promise<void> {
    if (!this.#durable) return Promise.resolve();
    const waiting = this.#waiting.get(directory);
    if (waiting) return waiting;
    const running = this.#running.get(directory);
    if (!running) return this.#startSync(directory);
    const next = running
      .catch(() => {})
      .then(() => {
        this.#waiting.delete(directory);
        return this.#startSync(directory);
      });
    this.#waiting.set(directory, next);
    return next;
  }

  #startSync(directory: string): Promise<void> {
    const running = syncDirectory(directory).finally(() => {
      if (this.#running.get(directory) === running) this.#running.delete(directory);
    });
    this.#running.set(directory, running);
    return running;
  }

  // Not mkdir's own recursion, which never ends where a directory takes no names, as /proc does.
  async #make(directory: string, triesLeft = maxTries): Promise<void> {
    try {
      await mkdir(directory);
    } catch (error) {
      if (await isDirectory(directory)) return;
      if (systemCode(error) !== "ENOENT" || triesLeft === 1) throw error;
      const above = dirname(directory);
      // Another process may have made it between the two looks.
      if (!(await isDirectory(above))) {
        // It may have been made before and be gone since.
        this.forget(above);
        await this.make(above);
      }
      return this.#make(directory, triesLeft - 1);
    }
    await this.sync(dirname(directory));
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return await stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}

async function syncDirectory(directory: string): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(directory, "r");
    await handle.sync();
  } catch (error) {
    // Systems that cannot sync a directory say so in one of these ways.
    if (!["EISDIR", "EPERM", "EINVAL", "ENOTSUP"].includes(systemCode(error) ?? "")) throw error;
  } finally {
    await handle?.close();
  }
}
