import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * `npm ci` refuses a lock file that lacks an optional package of another platform, and npm leaves
 * those out that the registry at hand does not carry. This names them; `--write` adds them, by
 * version and platform and without a checksum, and drops addresses of registries.
 * Run it after each change of dependencies: `node scripts/check-lock.ts --write`.
 */
const lockFile = join(import.meta.dirname, "..", "package-lock.json");

/** A locked package, as far as this needs it. */
export interface LockedPackage {
  version: string;
  resolved?: string;
  integrity?: string;
  cpu?: string[];
  dev?: boolean;
  libc?: string[];
  optional?: boolean;
  os?: string[];
  optionalDependencies?: Record<string, string>;
}

export type LockedPackages = Record<string, LockedPackage>;

const systems = ["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd"];
systems.push("openharmony", "sunos", "win32");
const processors = [
  "arm",
  "arm64",
  "ia32",
  "loong64",
  "ppc64",
  "riscv64",
  "s390x",
  "wasm32",
  "x64",
];

/** What runs a package named `@scope/name-linux-x64-musl`; undefined when the name does not say. */
export function platformOf(name: string): Pick<LockedPackage, "cpu" | "libc" | "os"> | undefined {
  const words = name.split(/[-/]/);
  const os = words.filter((word) => systems.includes(word));
  const cpu = words.filter((word) => processors.includes(word));
  if (os.length + cpu.length === 0) return undefined;
  const libc = words.flatMap((word) => {
    if (!os.includes("linux")) return [];
    return word.startsWith("musl") ? ["musl"] : word.startsWith("gnu") ? ["glibc"] : [];
  });
  return {
    ...(cpu.length > 0 && { cpu }),
    ...(libc.length > 0 && { libc }),
    ...(os.length > 0 && { os }),
  };
}

/** The optional packages that the lock names and does not hold, by the place they belong to. */
export function missingPackages(packages: LockedPackages): LockedPackages {
  const missing: LockedPackages = {};
  for (const [path, locked] of Object.entries(packages)) {
    for (const [name, version] of Object.entries(locked.optionalDependencies ?? {})) {
      if (`${path}/node_modules/${name}` in packages || `node_modules/${name}` in packages)
        continue;
      const { cpu, libc, os } = platformOf(name) ?? {};
      missing[`node_modules/${name}`] = {
        version,
        ...(cpu && { cpu }),
        ...(locked.dev && { dev: true }),
        ...(libc && { libc }),
        optional: true,
        ...(os && { os }),
      };
    }
  }
  return missing;
}

function main(): void {
  const lock = JSON.parse(readFileSync(lockFile, "utf8")) as { packages: LockedPackages };
  const missing = missingPackages(lock.packages);
  const addressed = Object.keys(lock.packages).filter((path) => lock.packages[path]!.resolved);
  if (process.argv.includes("--write")) {
    for (const path of addressed) delete lock.packages[path]!.resolved;
    const entries = Object.entries({ ...lock.packages, ...missing });
    lock.packages = Object.fromEntries(entries.sort(([a], [b]) => a.localeCompare(b, "en")));
    writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`);
  } else {
    for (const path of Object.keys(missing)) console.error(`not locked: ${path}`);
    for (const path of addressed) console.error(`locked with an address: ${path}`);
    if (Object.keys(missing).length + addressed.length > 0) process.exitCode = 1;
  }
}

if (import.meta.main) main();
