import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseSync } from "oxc-parser";
import { describe, expect, it } from "vitest";

const bin = fileURLToPath(new URL("../../bin/sluice.cjs", import.meta.url));

/** Runs the bin as if Node were another version, on another system. */
function runAs(version: string, platform = "linux", args: readonly string[] = ["--version"]) {
  const pretend = `
    Object.defineProperty(process, "versions", { value: { node: ${JSON.stringify(version)} } });
    Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} });
    process.argv = [process.argv[0], ${JSON.stringify(bin)}, ...${JSON.stringify(args)}];
    require(${JSON.stringify(bin)});`;
  return spawnSync(process.execPath, ["-e", pretend], { encoding: "utf8" });
}

describe("bin", () => {
  it("runs the sources of a checkout", () => {
    const { status, stdout } = spawnSync(process.execPath, [bin, "--version"], {
      encoding: "utf8",
    });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+/);
  });

  it("names the Node it needs to an older one", () => {
    for (const version of ["0.12.18", "8.17.0", "20.20.2", "22.17.1"]) {
      const { status, stderr } = runAs(version);
      expect(status, version).toBe(64);
      expect(stderr).toContain(`needs Node 22.18 or newer, and this is Node ${version}`);
      const [, own] = /by the Node of this checkout: (\S+) /.exec(stderr)!;
      expect(spawnSync(own!, ["--version"], { encoding: "utf8" }).stdout).toMatch(/^v24/);
    }
    expect(runAs("22.18.0").status).toBe(0);
    expect(runAs("23.0.0").status).toBe(0);
  });

  it("sends users of Windows to WSL2", () => {
    const { status, stderr } = runAs("24.0.0", "win32");
    expect(status).toBe(64);
    expect(stderr).toContain("WSL2");
  });

  it("has a first file that the oldest Node can read", () => {
    const text = readFileSync(bin, "utf8").replace(/^#!.*/, "");
    const { program, errors } = parseSync("sluice.cjs", text, { sourceType: "script" });
    expect(errors).toEqual([]);
    expect(program.body.length).toBeGreaterThan(3);
    expect(text.replaceAll(/\/\/.*/g, "")).not.toMatch(
      /`|=>|\b(const|let|class|import|async)\b|,\s*[)\]}]/,
    );
  });

  it("ends with code 64 and one line for an unknown command", () => {
    const { status, stderr } = spawnSync(process.execPath, [bin, "doctr"], { encoding: "utf8" });
    expect(status).toBe(64);
    expect(stderr).toContain("did you mean doctor?");
  });

  it("names a full disk behind its output", (context) => {
    context.skip(!existsSync("/dev/full"), "this system has no /dev/full");
    const command = `"${process.execPath}" "${bin}" schema > /dev/full`;
    const { status, stderr } = spawnSync("bash", ["-c", command], { encoding: "utf8" });
    expect(status).toBe(74);
    expect(stderr).toMatch(
      /^error STORE_FULL: the disk is full: ENOSPC \(standard output\)\n {2}hint/,
    );
    expect(stderr.split("\n")).toHaveLength(3);
  });

  it("ends quietly when the reader of its output leaves", () => {
    const command = `"${process.execPath}" "${bin}" schema | head -c 1; echo "\${PIPESTATUS[0]}"`;
    const { stdout, stderr } = spawnSync("bash", ["-c", command], { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(stdout).toBe("{0\n");
  });
});
