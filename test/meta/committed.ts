import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { filesUnder, root } from "./source-tree.ts";

/** Every file that is, or would be, committed; without git, every file that is not ignored. */
export function committedFiles(): string[] {
  try {
    const list = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    // A file that was removed and not yet committed as removed is still listed.
    const paths = list.split("\0").filter((path) => path && existsSync(join(root, path)));
    if (paths.length > 0) return [...new Set(paths)].sort();
  } catch {
    // Not a repository, or no git.
  }
  return filesUnder(".", (path) => !path.endsWith(".tgz"));
}
