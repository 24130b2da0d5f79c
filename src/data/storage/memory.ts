import { SluiceError } from "../../foundation/errors.ts";
import type { Appender, RandomReader, Storage, StoredFile, Writer } from "./storage.ts";

/**
 * Storage in memory, for tests and simulations. It keeps every promise of the interface except that
 * its content outlives the process.
 *
 * @example
 * const storage = memoryStorage();
 * await storage.createIfAbsent("a", Buffer.from("1")); // "created"
 * await storage.createIfAbsent("a", Buffer.from("2")); // "exists"
 */
export function memoryStorage(): Storage {
  return new MemoryStorage();
}

class MemoryStorage implements Storage {
  readonly location = "memory:";
  readonly #files = new Map<string, MemoryFile>();

  async read(path: string): Promise<Uint8Array> {
    return this.#existing(path).content().slice();
  }

  async open(path: string): Promise<RandomReader> {
    const content = this.#existing(path).content();
    return {
      bytes: content.length,
      read: async (offset, length) => content.slice(offset, offset + length),
      close: async () => {},
    };
  }

  async stat(path: string): Promise<StoredFile | undefined> {
    const file = this.#files.get(path);
    return file && { path, bytes: file.bytes };
  }

  async *list(prefix: string): AsyncIterable<StoredFile> {
    const paths = [...this.#files.keys()].filter((path) => path.startsWith(prefix)).sort();
    for (const path of paths) {
      const file = this.#files.get(path);
      if (file) yield { path, bytes: file.bytes };
    }
  }

  async createIfAbsent(path: string, data: Uint8Array): Promise<"created" | "exists"> {
    if (this.#files.has(path)) return "exists";
    this.#files.set(path, new MemoryFile(data));
    return "created";
  }

  async replace(path: string, data: Uint8Array): Promise<void> {
    this.#files.set(path, new MemoryFile(data));
  }

  async appender(path: string): Promise<Appender> {
    const file = this.#files.get(path) ?? new MemoryFile();
    this.#files.set(path, file);
    return {
      append: async (data) => file.append(data),
      sync: async () => {},
      close: async () => {},
    };
  }

  async writer(path: string): Promise<Writer> {
    const file = new MemoryFile();
    return {
      write: async (data) => file.append(data),
      close: async () => {
        this.#files.set(path, file);
      },
      abort: async () => {},
    };
  }

  async publish(from: string, to: string): Promise<void> {
    this.#files.set(to, new MemoryFile(this.#existing(from).content()));
  }

  async remove(path: string): Promise<void> {
    this.#files.delete(path);
  }

  #existing(path: string): MemoryFile {
    const file = this.#files.get(path);
    if (!file) throw new SluiceError("NOT_FOUND", "", { file: path });
    return file;
  }
}

/** Bytes that grow at the end; they are joined when they are read. */
class MemoryFile {
  bytes = 0;
  #pieces: Uint8Array[] = [];

  constructor(data?: Uint8Array) {
    if (data) this.append(data);
  }

  append(data: Uint8Array): void {
    this.#pieces.push(Uint8Array.from(data));
    this.bytes += data.length;
  }

  content(): Uint8Array {
    if (this.#pieces.length !== 1) this.#pieces = [new Uint8Array(Buffer.concat(this.#pieces))];
    return this.#pieces[0]!;
  }
}
