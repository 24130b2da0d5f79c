import { describe, expect, it } from "vitest";
import { runCommand } from "../../src/foundation/subprocess.ts";

const node = process.execPath;

describe("runCommand", () => {
  it("gives code, both streams, and each line as it comes", async () => {
    const lines: string[] = [];
    const program = "console.log('a\\nb'); process.stderr.write('c'); process.exitCode = 3";
    const result = await runCommand(node, ["-e", program], { onLine: (line) => lines.push(line) });
    expect(result).toEqual({ code: 3, stdout: "a\nb\n", stderr: "c", timedOut: false });
    expect(lines.sort()).toEqual(["a", "b", "c"]);
  });

  it("passes exactly the environment it is given, and the folder", async () => {
    const program = "console.log(process.env.ONLY, process.env.HOME, process.cwd())";
    const options = { env: { ONLY: "this" }, cwd: "/" };
    expect((await runCommand(node, ["-e", program], options)).stdout).toBe("this undefined /\n");
  });

  it("keeps the end of a long output", async () => {
    const program = "process.stdout.write('x'.repeat(200_000) + 'end')";
    const { stdout } = await runCommand(node, ["-e", program]);
    expect(stdout.length).toBe(65_536);
    expect(stdout.endsWith("xend")).toBe(true);
  });

  it("kills what takes too long", async () => {
    const result = await runCommand(node, ["-e", "setInterval(() => {}, 1e6)"], { timeoutMs: 50 });
    expect(result).toMatchObject({ code: null, timedOut: true });
  });

  it("rejects with the signal's reason", async () => {
    const stop = new AbortController();
    const program = "console.log('up'); setInterval(() => {}, 1e6)";
    const onLine = () => stop.abort(new Error("enough"));
    const running = runCommand(node, ["-e", program], { onLine, signal: stop.signal });
    await expect(running).rejects.toThrow("enough");
  });

  it("is not waited for where a program could not be started", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout");
    const before = timers().length;
    await expect(runCommand("/nothing/here", [], { timeoutMs: 1e6 })).rejects.toThrow("ENOENT");
    expect(timers()).toHaveLength(before);
  });

  it("rejects when there is no such program", async () => {
    await expect(runCommand("/no/such/program", [])).rejects.toMatchObject({ code: "ENOENT" });
  });
});
