import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { sluiceProgram } from "../sluice-program.ts";

/** What builds images here. */
const builder = ["podman", "docker"].find((name) => spawnSync(name, ["info"]).status === 0);

describe("sluice image", () => {
  it("has in the package what its Dockerfile copies", () => {
    const root = join(dirname(sluiceProgram), "..");
    const ignore = readFileSync(join(root, ".dockerignore"), "utf8").trim().split("\n");
    const copied = ignore.filter((line) => line.startsWith("!")).map((line) => line.slice(1));
    expect(ignore[0]).toBe("*");
    for (const name of ["Dockerfile", ...copied])
      expect(existsSync(join(root, name)), name).toBe(true);
    expect(copied).toContain("bin");
  });

  it("names what each program said where none builds images", async () => {
    const { code, stderr } = await runSluice(["image", "--tag", "sluice-test"], scratchFolder(), {
      PATH: "/nowhere",
    });
    expect(code).toBe(69);
    expect(stderr).toContain("an image is built by podman, buildah or docker");
    expect(stderr).toContain("podman: not on PATH; buildah: not on PATH; docker: not on PATH");
  });

  it("builds an image that runs", async (context) => {
    context.skip(builder === undefined, "neither podman nor docker works here");
    const { code, stderr } = await runSluice(["image", "--tag", "sluice-test"], scratchFolder());
    expect(code, stderr).toBe(0);
    const words = ["run", "--rm", "sluice-test", "sluice", "--version"];
    expect(execFileSync(builder!, words, { encoding: "utf8" })).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
