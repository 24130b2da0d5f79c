import type { Engine } from "../engine.ts";

/**
 * An engine of two: requests for vectors go to another one, which is opened when the first of them
 * comes, all else to `generation`, whose name and choices it has.
 */
export function withVectors(generation: Engine, open: () => Promise<Engine>): Engine {
  let vectors: Promise<Engine> | undefined;
  const opened = () => {
    vectors ??= open().catch((error) => {
      vectors = undefined;
      throw error;
    });
    return vectors;
  };
  const { tokenize } = generation;
  return {
    get name() {
      return generation.name;
    },
    get capacity() {
      return generation.capacity;
    },
    get choices() {
      return generation.choices ?? {};
    },
    ...(tokenize && { tokenize }),
    async infer(request, signal, onDelta) {
      const engine = request.embed === true ? await opened() : generation;
      return engine.infer(request, signal, onDelta);
    },
    async close() {
      const other = await vectors?.catch(() => undefined);
      await Promise.all([generation.close(), other?.close()]);
    },
  };
}
