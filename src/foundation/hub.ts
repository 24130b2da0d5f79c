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

/** Why the hub gives no file, and what helps. */
export interface HubRefusal {
  /** True if the hub has nothing of that name, or says so to accounts without access. */
  isAbsent: boolean;
  reason: string;
  hint: string;
}

/**
 * Reads the hub's answer to a request for a file or a listing; undefined if it is not a refusal.
 *
 * @param code the header `x-error-code`. The status alone does not tell: to a request without a
 *   token, a missing repository is 401 as well.
 * @param page address of the repository's page.
 */
export function hubRefusal(
  { status, code }: { status: number; code: string | undefined },
  { page, environment }: { page: string; environment: Environment },
): HubRefusal | undefined {
  const hasToken = Boolean(environment.HF_TOKEN);
  const isUnknown = code === undefined;
  if (code === "GatedRepo" || (isUnknown && status === 403)) {
    const hint = hasToken
      ? `ask for access at ${page} with the account that HF_TOKEN belongs to`
      : `ask for access at ${page} with an account of yours, and set HF_TOKEN to a token of it`;
    const reason = `HTTP ${status}: the hub gives it only to accounts with access`;
    return { isAbsent: false, reason, hint };
  }
  if (isUnknown && status === 401 && hasToken) {
    const hint = `set HF_TOKEN to a token of ${hubEndpoint(environment)}/settings/tokens that is valid`;
    return { isAbsent: false, reason: `HTTP ${status}: the hub does not accept HF_TOKEN`, hint };
  }
  if (code === "RevisionNotFound") {
    return {
      isAbsent: true,
      reason: "no such revision",
      hint: `see its branches and tags at ${page}`,
    };
  }
  if (code === "EntryNotFound") {
    return { isAbsent: true, reason: "no such file", hint: `see its files at ${page}` };
  }
  const isAbsent = status === 404 || code === "RepoNotFound";
  if (!isAbsent && status !== 401 && status !== 403) return undefined;
  const secret = hasToken ? "and what HF_TOKEN may read" : "or set HF_TOKEN if it is private";
  const names = isUnknown ? "owner, name and file" : "owner and name";
  const hint = `check ${names}, ${secret}: see ${page}`;
  return { isAbsent, reason: `HTTP ${status} from the hub`, hint };
}
