type Environment = Readonly<Record<string, string | undefined>>;

/** Origin of the hub: `HF_ENDPOINT` where it is set. */
export function hubEndpoint(environment: Environment): string {
  return (environment.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, "");
}

/** True where `HF_HUB_OFFLINE` forbids asking the hub. */
export function isHubOffline(environment: Environment): boolean {
  return /^(1|true|yes|on)$/i.test(environment.HF_HUB_OFFLINE ?? "");
}

/** A file of a revision as it stands in addresses of the hub: `main/folder/file`. */
export function hubPath(revision: string, file: string): string {
  return [revision, ...file.split("/")].map(encodeURIComponent).join("/");
}
