import { expect, it } from "vitest";
import { Places } from "../../../src/serve/batches/places.ts";

const never = new AbortController().signal;

it("places go to those that wait, in their order; who hurries or gives up takes none", async () => {
  const places = new Places(1);
  const order: string[] = [];
  const take = async (name: string, hurry = never, signal = never) => {
    const leave = await places.take(hurry, signal);
    order.push(name);
    return leave;
  };
  const leave = await take("first");
  const hurry = new AbortController();
  const close = new AbortController();
  const hurried = take("hurried", hurry.signal);
  const closed = take("closed", never, close.signal);
  const [second, third] = [take("second"), take("third")];
  hurry.abort();
  close.abort(new Error("closing"));
  await expect(closed).rejects.toThrow("closing");
  // It has no place to give.
  (await hurried)();
  expect(order).toEqual(["first", "hurried"]);
  leave();
  leave();
  (await second)();
  (await third)();
  expect(order).toEqual(["first", "hurried", "second", "third"]);
  (await take("fourth"))();
});
