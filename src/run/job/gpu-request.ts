/** What `workers.gpu` asks for. */
export interface GpuRequest {
  /** Name of a kind, as people write it; undefined for any. */
  kind?: string;
  /** GPUs for each worker; undefined for as many as the model needs. */
  count?: number;
}

/** Forms of `workers.gpu`: a number, a kind, or both. */
export const gpuRequestPattern =
  /^[ \t]*([1-9]\d*|[^:\r\n]*[^:\d\s][^:\r\n]*|[^:\r\n]+:[1-9]\d*)[ \t]*$/;

/**
 * Reads `workers.gpu`.
 *
 * @example
 * gpuRequest("l40s:2"); // { kind: "l40s", count: 2 }
 * gpuRequest("l40s"); // { kind: "l40s" }
 * gpuRequest("2"); // { count: 2 }
 */
export function gpuRequest(text: string): GpuRequest {
  const [first = "", count] = text.trim().split(":");
  if (count !== undefined) return { kind: first, count: Number(count) };
  return /^\d+$/.test(first) ? { count: Number(first) } : { kind: first };
}
