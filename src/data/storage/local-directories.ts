import { type FileHandle, mkdir, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "../../foundation/system-errors.ts";

/** Most directories that are remembered as made; beyond it, all are forgotten. */
const maxRemembered = 10_000;
/** Tries to make a directory while another process removes its parents. */
const maxTries = 5;

/** Makes each directory once, durably: its name survives a power loss. */
export class LocalDirectories {
  readonly #durable: boolean;
  readonly #made = new Map<string, Promise<void>>();
  /** Syncs in progress and the ones that wait behind them, by directory. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #waiting = new Map<string, Promise<void>>();

  constructor(durable: boolean) {
    this.#durable = durable;
  }

  /** Makes `directory` and all above it. */
  make(directory: string): Promise<void> {
    const known = this.#made.get(directory);
    if (known) return known;
    if (this.#made.size >= maxRemembered) this.#made.clear();
    const making = this.#make(directory);
    this.#made.set(directory, making);
    making.catch(() => this.#made.delete(directory));
    return making;
  }

  /** Forgets that `directory` was made; call it when the directory is gone. */
  forget(directory: string): void {
    this.#made.delete(directory);
  }

  /**
   * Makes the names in `directory` survive a power loss. Calls during a sync share the next one, so
   * a hundred files that appear together cost two syncs.
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

  // Not mkdir's own recursion: it never ends if a directory accepts no names, as in /proc.
  async #make(directory: string, triesLeft = maxTries): Promise<void> {
    try {
      await mkdir(directory);
    } catch (error) {
      if (await isDirectory(directory)) return;
      if (systemCode(error) !== "ENOENT" || triesLeft === 1) throw error;
      const above = dirname(directory);
      // Another process may have made it meanwhile.
      if (!(await isDirectory(above))) {
        // It may have been made before and removed since.
        this.forget(above);
        await this.make(above);
      }
      return this.#make(directory, triesLeft - 1);
    }
    await this.sync(dirname(directory));
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

async function syncDirectory(directory: string): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(directory, "r");
    await handle.sync();
  } catch (error) {
    // Errors of systems that cannot sync a directory.
    if (!["EISDIR", "EPERM", "EINVAL", "ENOTSUP"].includes(systemCode(error) ?? "")) throw error;
  } finally {
    await handle?.close();
  }
}
