import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { installBeside } from "./installing.ts";

/** An old version that clusters still run, and the newest one. */
export const openapiVersions = ["1.31.14", "1.37.2"] as const;

const cache = join(import.meta.dirname, "../.cache");

/** The place of the OpenAPI document that a version of Kubernetes publishes. */
export const openapiFile = (version: string) => join(cache, `kubernetes-openapi-${version}.json`);

/** Why the documents are not there; undefined if they are. */
export function missingOpenapi(): string | undefined {
  if (openapiVersions.map(openapiFile).every(existsSync)) return undefined;
  return "the OpenAPI documents of Kubernetes could not be fetched; Go fetches them";
}

/**
 * Fetches the OpenAPI documents of two versions of Kubernetes for the tests, once, out of its
 * published sources: some seconds and 38 MB; needs Go. Tests skip where they are not there.
 */
function fetchOpenapi(): void {
  if (missingOpenapi() === undefined || spawnSync("go", ["version"]).status !== 0) return;
  const draft = join(cache, `kubernetes-openapi.${process.pid}`);
  mkdirSync(draft, { recursive: true });
  console.log("fetching the OpenAPI documents of Kubernetes for the tests of its manifests");
  try {
    for (const version of openapiVersions) {
      const module = `k8s.io/kubernetes@v${version}`;
      const answer = execFileSync("go", ["mod", "download", "-modcacherw", "-json", module], {
        cwd: draft,
        // Its sources are not kept.
        env: { ...process.env, GOMODCACHE: join(draft, "modules"), GOFLAGS: "", GO111MODULE: "on" },
        stdio: ["ignore", "pipe", "inherit"],
      });
      const { Dir } = JSON.parse(answer.toString()) as { Dir: string };
      const copy = join(draft, "swagger.json");
      cpSync(join(Dir, "api/openapi-spec/swagger.json"), copy);
      renameSync(copy, openapiFile(version));
    }
  } catch (error) {
    console.error(`they could not be fetched: ${(error as Error).message}`);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

export default installBeside(import.meta.filename);

if (import.meta.main) fetchOpenapi();
