import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../../foundation/subprocess.ts";

/**
 * A root for programs, made in a mount namespace of their own: everything of this machine's root,
 * bound to a new empty one, and the mounts at their paths. The real root is not changed, not even
 * by a folder for a mount.
 *
 * Arguments: the folder for the new root, the working directory, then path and folder of each
 * mount, `--`, and the command.
 */
const script = `
fail() { echo "$1" >&2; exit 125; }
root=$1 directory=$(cd "$2" && pwd) || exit 125; shift 2
mount -t tmpfs -o mode=755 tmpfs "$root" || exit 125
for entry in /* /.[!.]*; do
  if [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
  elif [ -d "$entry" ]; then mkdir "$root$entry" && mount --rbind "$entry" "$root$entry"
  elif [ -e "$entry" ]; then : > "$root$entry" && mount --bind "$entry" "$root$entry"
  fi || exit 125
done
while [ "$1" != -- ]; do
  top=/$(echo "$1" | cut -d/ -f2)
  [ -d "$1" ] || [ ! -e "$top" ] || fail "$top is here, without $1: mount at another path"
  mkdir -p "$root$1" && mount --bind "$2" "$root$1" || exit 125
  shift 2
done
shift
exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sluice "$directory" "$@"`;

/** Ways to get a namespace: for root, and for everybody where the machine permits it. */
const ways = [
  ["unshare", "--mount"],
  ["unshare", "--user", "--map-root-user", "--mount"],
] as const;

/** Longest time of a try. */
const tryTimeoutMs = 10_000;

/** A mount of a task: the path, and the folder of this machine that appears there. */
export interface Bind {
  path: string;
  place: string;
}

/** Starts programs with mounts at real paths. */
export interface MountNamespace {
  /** The command line of a program that finds the mounts at their paths. */
  command(words: readonly string[], directory: string, binds: readonly Bind[]): readonly string[];
  close(): Promise<void>;
}

/**
 * Tries whether this machine permits mounts at these paths.
 *
 * @returns the reason if it does not, and the program `unshare` is there but refuses.
 */
export async function openMountNamespace(
  paths: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<MountNamespace | { refused: string }> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-root-"));
  const close = () => rm(folder, { recursive: true, force: true });
  const root = join(folder, "root");
  const place = join(folder, "tried");
  for (const each of [root, place]) await mkdir(each);
  let refused = "";
  for (const way of ways) {
    const words = [...way, "/bin/sh", "-c", script, "sluice-mounts", root];
    const command: MountNamespace["command"] = (program, directory, binds) => {
      // A mount inside another one comes after it.
      const sorted = binds.toSorted((a, b) => a.path.length - b.path.length);
      const places = sorted.flatMap(({ path, place }) => [path, place]);
      return [...words, directory, ...places, "--", ...program];
    };
    const tried = command(
      ["true"],
      "/",
      paths.map((path) => ({ path, place })),
    );
    const options = { env: environment, timeoutMs: tryTimeoutMs };
    const end = await runCommand(tried[0]!, tried.slice(1), options).catch((error: Error) => error);
    if (!(end instanceof Error) && end.code === 0) return { command, close };
    refused = end instanceof Error ? end.message : end.stderr.trim() || `code ${end.code}`;
  }
  await close();
  return { refused };
}
