import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodePackage } from "../src/backends/context.ts";
import { rayRelease } from "../src/backends/ray/open.ts";

const root = join(import.meta.dirname, "..");
/** What of the package a node needs. */
const software = ["dist", "python", "schema", "package.json"];

/**
 * Makes the wheel `sluice-ray`: the bridge, with the JavaScript of `dist/` inside. `pip install` of
 * it brings Ray and Node.js too, and the command `sluice`.
 *
 * @param target folder for the wheel.
 * @param from a checkout with `dist/`, or an installed package.
 * @returns its path.
 */
export function buildWheel(target: string, from: string = root): string {
  if (!existsSync(join(from, "dist"))) throw new Error(`${from} has no dist: npm run build`);
  const { version, description, license } = JSON.parse(
    readFileSync(join(from, "package.json"), "utf8"),
  ) as Record<string, string>;
  const draft = mkdtempSync(join(tmpdir(), "sluice-wheel-"));
  try {
    const bridge = join(from, "python/sluice_ray");
    const inside = join(draft, "sluice_ray");
    const filter = (path: string) => !/\.d\.ts$|__pycache__/.test(path);
    cpSync(bridge, inside, { recursive: true, filter });
    const rest = (path: string) => filter(path) && path !== bridge;
    for (const name of software) {
      const place = join(inside, "software", name);
      cpSync(join(from, name), place, { recursive: true, filter: rest });
    }
    const project = `[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "sluice-ray"
version = "${version}"
description = ${JSON.stringify(description)}
license = "${license}"
requires-python = ">=3.10"
dependencies = ["${rayRelease}", "${nodePackage}"]

[project.scripts]
sluice = "sluice_ray.node:main"

[tool.setuptools]
packages = ["sluice_ray"]

[tool.setuptools.package-data]
sluice_ray = ["py.typed", "software/**"]
`;
    writeFileSync(join(draft, "pyproject.toml"), project);
    mkdirSync(target, { recursive: true });
    const pip = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check"];
    execFileSync("python3", [...pip, "--wheel-dir", target, draft], { stdio: "inherit" });
    return join(target, `sluice_ray-${version}-py3-none-any.whl`);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

if (import.meta.main) console.log(buildWheel(join(root, ".cache/wheel")));
