import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openMountNamespace } from "../../../src/engines/program/mount-namespace.ts";

const environment = { PATH: process.env.PATH };
const module = new URL("../../../src/engines/program/mount-namespace.ts", import.meta.url);

function places() {
  const folder = mkdtempSync(join(tmpdir(), "sluice-namespace-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o777);
  for (const name of ["outer", "inner"]) {
    mkdirSync(join(folder, name));
    chmodSync(join(folder, name), 0o777);
    writeFileSync(join(folder, name, "name"), name);
  }
  return {
    folder,
    binds: [
      { path: "/sluice-test/deep", place: join(folder, "inner") },
      { path: "/sluice-test", place: join(folder, "outer") },
    ],
  };
}

describe("a mount namespace", () => {
  it("shows folders at paths that this machine has not, one within the other", async (context) => {
    const { folder, binds } = places();
    const namespace = await openMountNamespace(["/sluice-test"], environment);
    context.skip("refused" in namespace, "this machine permits no mounts");
    if ("refused" in namespace) return;
    const script = "cat /sluice-test/name /sluice-test/deep/name; echo new > /sluice-test/new; pwd";
    const [program, ...words] = namespace.command(["sh", "-c", script], folder, binds);
    const said = execFileSync(program!, words, { encoding: "utf8" });
    expect(said).toBe(`outerinner${folder}\n`);
    expect(existsSync(join(folder, "outer/new"))).toBe(true);
    expect(existsSync("/sluice-test")).toBe(false);
    // An end is passed on as it is.
    const [failing, ...rest] = namespace.command(["sh", "-c", "exit 7"], "/", binds);
    expect(spawnSync(failing!, rest).status).toBe(7);
    await namespace.close();
  });

  it("changes no folder of this machine", async () => {
    const namespace = await openMountNamespace(["/usr/sluice-test"], environment);
    expect(namespace).toHaveProperty("refused");
    if ("refused" in namespace && namespace.refused.startsWith("/usr")) {
      expect(namespace.refused).toBe(
        "/usr is here, without /usr/sluice-test: mount at another path",
      );
    }
    expect(existsSync("/usr/sluice-test")).toBe(false);
  });

  it("needs no rights where the machine gives every user one", (context) => {
    context.skip(process.getuid?.() !== 0, "only root can become another user");
    const { folder, binds } = places();
    const program = `
      const { openMountNamespace } = await import(${JSON.stringify(module)});
      const namespace = await openMountNamespace(["/sluice-test"], process.env);
      if ("refused" in namespace) process.exit(3);
      const words = ["cat", "/sluice-test/name"];
      process.stdout.write(JSON.stringify(namespace.command(words, "/", ${JSON.stringify(binds)})));`;
    const as = { uid: 65_534, gid: 65_534, encoding: "utf8", cwd: folder } as const;
    const found = spawnSync(process.execPath, ["--input-type=module", "-e", program], as);
    context.skip(found.status === 3, "this machine permits users no namespaces");
    const [first, ...words] = JSON.parse(found.stdout) as string[];
    expect(words).toContain("--map-root-user");
    expect(execFileSync(first!, words, as)).toBe("outer");
  });

  it("says why there is none", async () => {
    const namespace = await openMountNamespace(["/sluice-test"], { PATH: "/nowhere" });
    expect(namespace).toEqual({ refused: expect.stringContaining("unshare") });
  });
});
