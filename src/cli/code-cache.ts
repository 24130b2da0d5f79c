import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { createRequire, enableCompileCache } from "node:module";
import { basename, dirname, join } from "node:path";
import { constants, Script } from "node:vm";
import { crc32 } from "node:zlib";

/** The names of chunks end with a digest of their content, so that kept code never goes stale. */
const chunkName = /-[\w-]{8}\.cjs$/;

/** A start is over by then. Later, V8 forgets functions that have not run for long. */
const maxStartMs = 2_000;

/** Behind the code in a file: its checksum, and after how many ms a process kept it. */
const trailerBytes = 8;

/** As Node has it: in the line of the chunk's first, so that stacks name the right lines. */
const head = "(function (exports, require, module, __filename, __dirname) { ";

interface LoadedChunk {
  exports: unknown;
}

type ChunkBody = (
  this: unknown,
  exports: unknown,
  require: NodeJS.Require,
  module: LoadedChunk,
  file: string,
  directory: string,
) => void;

/**
 * The `require` of the command line in `dist/`, which keeps the compiled code of its chunks from
 * one process to the next. Node keeps it as well, but takes it before a module runs, so that each
 * function that runs at a start is compiled at each start; this takes it when the start is over.
 * Each command (`run`, `worker`) keeps its own, because each runs other functions of a chunk, and
 * keeps it again where it ran twice as long as the last time: a call that was refused kept little.
 * Only the bundler uses this module, in the first line of `dist/cli/main.cjs`.
 *
 * @param file where the command line lies.
 * @returns Node's own `require` where it keeps no code, or in a folder that others can write.
 */
export function requireKeepingCode(file: string): NodeJS.Require {
  // A scheduler starts a worker without `bin/sluice.cjs`, which asks for it as well.
  const { directory } = enableCompileCache();
  const plain = createRequire(file);
  if (directory === undefined || !isOwn(directory)) return plain;
  const [, , command = ""] = process.argv;
  const program = /^[a-z-]+$/.test(command) ? command : "sluice";
  const loaded = new Map<string, LoadedChunk>();
  const scripts = new Map<string, Script>();
  let keptAfterMs = Number.POSITIVE_INFINITY;

  const load = (path: string): unknown => {
    const known = loaded.get(path);
    if (known !== undefined) return known.exports;
    const chunk: LoadedChunk = { exports: {} };
    loaded.set(path, chunk);
    const place = join(directory, `${basename(path)}.${program}`);
    const isChunk = chunkName.test(path);
    const kept = isChunk ? keptCode(place) : undefined;
    const script = new Script(`${head}${readFileSync(path, "utf8")}\n})`, {
      filename: path,
      ...(kept && { cachedData: kept.code }),
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    if (isChunk) {
      scripts.set(place, script);
      keptAfterMs = Math.min(keptAfterMs, script.cachedDataRejected === false ? kept!.afterMs : 0);
    }
    const { exports } = chunk;
    const run = script.runInThisContext() as ChunkBody;
    try {
      run.call(exports, exports, requireFrom(path), chunk, path, dirname(path));
    } catch (error) {
      // As Node does: who asks again gets the error again, not a half of the chunk.
      loaded.delete(path);
      throw error;
    }
    return chunk.exports;
  };
  const requireFrom = (from: string): NodeJS.Require => {
    const require = (id: string) =>
      /^\.\.?\/.*\.cjs$/.test(id) ? load(join(dirname(from), id)) : plain(id);
    return Object.assign(require, plain);
  };
  const keepAll = () => {
    process.off("exit", keepAll);
    const afterMs = performance.now();
    if (afterMs < 2 * keptAfterMs) return;
    for (const [place, script] of scripts) keep(place, script.createCachedData(), afterMs);
  };
  process.once("exit", keepAll);
  setTimeout(keepAll, maxStartMs).unref();
  return requireFrom(file);
}

/** What lies there is run, so that nobody else may write there. */
function isOwn(directory: string): boolean {
  const { uid, mode } = statSync(directory);
  return uid === process.getuid?.() && (mode & 0o002) === 0;
}

/** V8 trusts what it gets, so a file that a lost machine left damaged must not reach it. */
function keptCode(file: string): { code: Buffer; afterMs: number } | undefined {
  try {
    const bytes = readFileSync(file);
    const code = bytes.subarray(0, -trailerBytes);
    if (bytes.readUInt32LE(code.length) !== crc32(code)) return undefined;
    return { code, afterMs: bytes.readUInt32LE(code.length + 4) };
  } catch {
    return undefined;
  }
}

/** What cannot be kept is compiled again. */
function keep(file: string, code: Buffer, afterMs: number): void {
  const trailer = Buffer.alloc(trailerBytes);
  trailer.writeUInt32LE(crc32(code));
  trailer.writeUInt32LE(afterMs, 4);
  try {
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, Buffer.concat([code, trailer]), { mode: 0o600 });
    renameSync(draft, file);
  } catch {}
}
