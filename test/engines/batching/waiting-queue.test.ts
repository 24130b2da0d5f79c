import fc from "fast-check";
import { expect, it } from "vitest";
import { type Waiting, WaitingQueue } from "../../../src/engines/batching/waiting-queue.ts";

interface Item extends Waiting<Item> {
  name: number;
}

const act = fc.oneof(
  fc.record({ kind: fc.constantFrom("add", "addFirst") }),
  fc.record({ kind: fc.constant("remove"), at: fc.nat() }),
);

it("has the order of a sorted list, whatever joins, comes back and leaves", () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
      const queue = new WaitingQueue<Item>();
      let expected: Item[] = [];
      for (const [name, each] of acts.entries()) {
        if ("at" in each) {
          const item = expected[each.at % expected.length];
          if (item === undefined) continue;
          queue.remove(item);
          queue.remove(item);
          expected = expected.filter((other) => other !== item);
        } else {
          const item: Item = { name, isQueued: false };
          const isFirst = each.kind === "addFirst";
          expected = isFirst ? [item, ...expected] : [...expected, item];
          if (isFirst) queue.addFirst(item);
          else queue.add(item);
        }
        const names = expected.map((item) => item.name);
        expect(queue.front(Infinity).map((item) => item.name)).toEqual(names);
        expect(queue.front(3).map((item) => item.name)).toEqual(names.slice(0, 3));
        expect(queue.size).toBe(expected.length);
        expect(queue.first).toBe(expected[0]);
      }
    }),
  );
});

it("goes on behind the last one that is left", () => {
  const queue = new WaitingQueue<Item>();
  const [first, last, next] = [0, 1, 2].map((name): Item => ({ name, isQueued: false }));
  queue.add(first!);
  queue.add(last!);
  queue.remove(last!);
  queue.add(next!);
  expect(queue.front(Infinity)).toEqual([first, next]);
});
