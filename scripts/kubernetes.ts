import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { peersDirectory } from "../bench/peers.ts";

/** Its libraries have the same version with another first number. */
const version = "1.34.2";
const folder = join(peersDirectory, `kubernetes-${version}`);
/** Packages of programs, by the names that the built programs get. */
const programs = {
  kubectl: "k8s.io/kubernetes/cmd/kubectl",
  "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
  "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
  server: "go.etcd.io/etcd/server/v3",
} as const;

export type KubernetesProgram = keyof typeof programs;

/** The place of a program of Kubernetes; `server` is etcd. */
export const kubernetesProgram = (name: KubernetesProgram) => join(folder, name);

/** Why there is no Kubernetes for tests; undefined if there is. */
export function missingKubernetes(): string | undefined {
  return existsSync(folder) ? undefined : "no Kubernetes: npm run peers -- kubernetes builds it";
}

/** Builds API server, controllers, client and store from their sources with Go: ten minutes. */
export function installKubernetes(): void {
  if (existsSync(folder)) return console.log(`kubernetes is there: ${folder}`);
  if (spawnSync("go", ["version"]).status !== 0) throw new Error("kubernetes is built with Go");
  const draft = `${folder}.draft`;
  const environment = { ...process.env, CGO_ENABLED: "0", GOFLAGS: "-mod=mod" };
  const go = (...args: string[]) =>
    execFileSync("go", args, {
      cwd: draft,
      env: environment,
      stdio: ["ignore", "pipe", "inherit"],
    });
  mkdirSync(draft, { recursive: true });
  const asked = JSON.parse(
    go("mod", "download", "-json", `k8s.io/kubernetes@v${version}`).toString(),
  ) as { GoMod: string };
  writeFileSync(join(draft, "go.mod"), moduleFile(readFileSync(asked.GoMod, "utf8")));
  const imports = Object.values(programs).map((path) => `\t_ "${path}"\n`);
  const source = `//go:build tools\n\npackage cluster\n\nimport (\n${imports.join("")})\n`;
  writeFileSync(join(draft, "tools.go"), source);
  go("mod", "tidy");
  for (const [name, path] of Object.entries(programs)) {
    console.log(`builds ${name}`);
    go("build", "-ldflags", "-s -w", "-o", name, path);
  }
  rmSync(folder, { recursive: true, force: true });
  renameSync(draft, folder);
  console.log(`kubernetes: ${folder}`);
}

/** A module that names the published libraries, where Kubernetes itself names its own folders. */
function moduleFile(own: string): string {
  const libraries = [...own.matchAll(/^\s*(k8s\.io\/[\w-]+) => \.\/staging/gm)];
  const lines = libraries.map(
    ([, name]) => `\t${name} => ${name} v${version.replace(/^1/, "0")}\n`,
  );
  const go = /^go .*$/m.exec(own)![0];
  const debug = /^godebug default=.*$/m.exec(own)?.[0] ?? "";
  return `module cluster\n\n${go}\n\n${debug}\n\nrequire k8s.io/kubernetes v${version}\n\nreplace (\n${lines.join("")})\n`;
}
