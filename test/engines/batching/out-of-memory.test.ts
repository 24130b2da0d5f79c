import { expect, it } from "vitest";
import { diedOfMemory, isOutOfMemory } from "../../../src/engines/batching/out-of-memory.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";

const named = (name: string, message = "") => Object.assign(new Error(message), { name });
const coded = (code: string) => Object.assign(new Error("it failed"), { code });

it.each([
  new RangeError("Array buffer allocation failed"),
  coded("OUT_OF_MEMORY"),
  coded("ERR_OUT_OF_MEMORY"),
  coded("ERR_MEMORY_ALLOCATION_FAILED"),
  coded("ENOMEM"),
  named("OutOfMemoryError"),
  named("torch.cuda.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB"),
  named("MemoryError"),
  new Error("CUDA error 2: out of memory"),
  new Error("CUDA_ERROR_OUT_OF_MEMORY"),
  new Error("CUBLAS failure: CUBLAS_STATUS_ALLOC_FAILED"),
  new Error("BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer"),
  new Error("std::bad_alloc"),
  new SluiceError("OUT_OF_MEMORY", "one row"),
])("knows want of memory: %s", (error) => {
  expect(isOutOfMemory(error)).toBe(true);
});

it.each([
  new RangeError("Maximum call stack size exceeded"),
  new RangeError("Invalid array length"),
  new Error("the memory of the room is out of date"),
  new SluiceError("ENGINE_DIED", "JavaScript heap out of memory"),
  "out of memory",
  undefined,
])("takes nothing else for it: %s", (error) => {
  expect(isOutOfMemory(error)).toBe(false);
});

it("knows a death for want of memory", () => {
  const heap =
    "signal SIGABRT; it wrote: FATAL ERROR: Reached heap limit Allocation failed - " +
    "JavaScript heap out of memory";
  expect(diedOfMemory(new SluiceError("ENGINE_DIED", heap))).toBe(true);
  expect(diedOfMemory(new SluiceError("ENGINE_DIED", "exit code 1"))).toBe(false);
  expect(diedOfMemory(new SluiceError("ENDPOINT_DOWN", heap))).toBe(false);
});
