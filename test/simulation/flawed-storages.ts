import type { Storage } from "../../src/data/storage/storage.ts";
import { sleep } from "../../src/foundation/clock.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import type { PlantInStore } from "./world.ts";

/** The same storage with some of its methods replaced. */
export function changed(inner: Storage, methods: Partial<Storage>): Storage {
  return {
    location: inner.location,
    read: (path) => inner.read(path),
    open: (path) => inner.open(path),
    stat: (path) => inner.stat(path),
    list: (prefix) => inner.list(prefix),
    createIfAbsent: (path, data) => inner.createIfAbsent(path, data),
    replace: (path, data) => inner.replace(path, data),
    appender: (path, options) => inner.appender(path, options),
    writer: (path) => inner.writer(path),
    publish: (from, to) => inner.publish(from, to),
    remove: (path) => inner.remove(path),
    ...methods,
  };
}

const lossyMs = 30;

/** What was written just before its process was killed is gone, though the write had returned. */
export const returnsBeforeFlush: PlantInStore = (inner, { process }, { clock }) => {
  let undone: { atMs: number; undo: () => Promise<void> }[] = [];
  const note = (undo: () => Promise<void>) => {
    undone = undone.filter(({ atMs }) => clock.monotonic() - atMs <= lossyMs);
    undone.push({ atMs: clock.monotonic(), undo });
  };
  void process.death.then(async () => {
    for (const { atMs, undo } of undone.reverse()) {
      if (clock.monotonic() - atMs <= lossyMs) await undo();
    }
  });
  return changed(inner, {
    async appender(path, options) {
      const appender = await inner.appender(path, options);
      return {
        ...appender,
        append: async (data) => {
          const before = await inner.read(path).catch(() => new Uint8Array());
          await appender.append(data);
          note(() => inner.replace(path, before));
        },
      };
    },
    async writer(path) {
      const writer = await inner.writer(path);
      return {
        ...writer,
        close: async () => {
          await writer.close();
          note(() => inner.remove(path));
        },
      };
    },
  });
};

/** Commits overwrite each other; the probe, which looks elsewhere, sees nothing of it. */
export const lastCommitWins: PlantInStore = (inner) =>
  changed(inner, {
    async createIfAbsent(path, data) {
      if (!/^_sluice\/(r\d+\/)?commits\//.test(path)) return await inner.createIfAbsent(path, data);
      await inner.replace(path, data);
      return "created";
    },
  });

/** Parts appear when they are written, not when their task is committed. */
export const publishesBeforeCommit: PlantInStore = (inner) =>
  changed(inner, {
    async writer(path) {
      const writer = await inner.writer(path);
      const task = /\/(\d+)\/[^/]+\/part\.jsonl$/.exec(path)?.[1];
      return {
        ...writer,
        close: async () => {
          await writer.close();
          if (task) await inner.publish(path, `part-${task.padStart(5, "0")}.jsonl`);
        },
      };
    },
  });

/** A store without conditional writes: every creator is told that it made the object. */
export const ignoresConditions: PlantInStore = (inner) =>
  changed(inner, {
    async createIfAbsent(path, data) {
      await inner.replace(path, data);
      return "created";
    },
  });

/** A store that looks first and writes then: two creators one after the other see it behave. */
export const looksThenWrites: PlantInStore = (inner, { process }) =>
  changed(inner, {
    async createIfAbsent(path, data) {
      if (await inner.stat(path)) return "exists";
      await sleep(process.clock, 1);
      await inner.replace(path, data);
      return "created";
    },
  });

/** A cleaning that does not see the plan of a retry that is under way, and removes it all. */
export const cleansBlindly: PlantInStore = (inner, { role }) => {
  if (role !== "command") return inner;
  return changed(inner, {
    async read(path) {
      const [, generation] = /^_sluice\/(?:r\d+\/)?generations\/(\d+)\/plan/.exec(path) ?? [];
      if (generation === undefined) return await inner.read(path);
      for await (const seal of inner.list("_sluice/")) {
        if (!seal.path.includes("/seals/")) continue;
        if (Number(seal.path.split(".").at(-2)) === Number(generation)) return inner.read(path);
      }
      throw new SluiceError("NOT_FOUND", "", { file: path });
    },
  });
};
