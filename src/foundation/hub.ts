import type { Environment } from "./subprocess.ts";

/** Origin of the Hugging Face hub: `HF_ENDPOINT`, or `https://huggingface.co`. */
export function hubEndpoint(environment: Environment): string {
  return (environment.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, "");
}

/** True if `HF_HUB_OFFLINE` forbids requests to the hub. */
export function isHubOffline(environment: Environment): boolean {
  return /^(1|true|yes|on)$/i.test(environment.HF_HUB_OFFLINE ?? "");
}

/** The part of a hub address that names a file of a revision: `main/folder/file`. */
export function hubPath(revision: string, file: string): string {
  return [revision, ...file.split("/")].map(encodeURIComponent).join("/");
}
