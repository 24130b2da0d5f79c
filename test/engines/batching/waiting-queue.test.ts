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

it("touches as many members of a long queue as of a short one, whoever joins and leaves", () => {
  expect(touchesOf(1000)).toEqual(touchesOf(10));
});

/** How often fields of members are read or set while members join, are seen and leave. */
function touchesOf(length: number): number[] {
  let touches = 0;
  const counting: ProxyHandler<Item> = {
    get(...field) {
      touches++;
      return Reflect.get(...field);
    },
    set(...field) {
      touches++;
      return Reflect.set(...field);
    },
  };
  const member = (name: number) => new Proxy<Item>({ name, isQueued: false }, counting);
  const queue = new WaitingQueue<Item>();
  const members = Array.from({ length }, (_, at) => member(at));
  for (const each of members) queue.add(each);
  const acts = [
    () => queue.add(member(length)),
    () => queue.addFirst(member(length + 1)),
    () => queue.front(3),
    () => queue.remove(members[0]!),
    () => queue.remove(members[length / 2]!),
    () => queue.remove(members[length - 1]!),
  ];
  return acts.map((act) => {
    touches = 0;
    act();
    return touches;
  });
}
