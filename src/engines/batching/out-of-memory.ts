import { SluiceError } from "../../foundation/errors.ts";

const codes = new Set([
  "OUT_OF_MEMORY",
  "ERR_OUT_OF_MEMORY",
  "ERR_MEMORY_ALLOCATION_FAILED",
  "ENOMEM",
]);

const names = /^(?:torch\.)?(?:cuda\.)?OutOfMemory(?:Error)?$|^MemoryError$/;

/** Messages of CUDA, PyTorch, ONNX Runtime, WebGPU and V8. */
const texts = [
  /\bout of memory\b|out_of_memory/i,
  /\bCUBLAS_STATUS_ALLOC_FAILED\b/,
  /\barray buffer allocation failed\b/i,
  /\bfailed to allocate memory\b/i,
  /\bcannot allocate memory\b/i,
  /\bstd::bad_alloc\b/,
];

/**
 * Whether an error means that memory did not suffice, so that half as many rows may fit.
 *
 * @example
 * isOutOfMemory(new RangeError("Array buffer allocation failed")); // true
 */
export function isOutOfMemory(error: unknown): boolean {
  if (error instanceof SluiceError) return error.code === "OUT_OF_MEMORY";
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === "string" && codes.has(code)) return true;
  return names.test(error.name) || texts.some((text) => text.test(error.message));
}

/** Whether an engine died because of missing memory, by its last output. */
export function diedOfMemory(error: SluiceError): boolean {
  return error.code === "ENGINE_DIED" && texts.some((text) => text.test(error.message));
}
