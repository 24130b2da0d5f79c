import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import * as model from "../../src/cli/commands/model.ts";
import { hubCache, markOf } from "../../src/engines/models/hub-cache.ts";
import { ggufBytes, temporaryFolder } from "../engines/models/context.ts";
import { sendFile, serve } from "../engines/models/serve.ts";
import { type CommandSetup, runOne } from "./model-terminal.ts";

const file = ggufBytes(100_000);
const name = "hf:o/r/a.gguf";

async function setupWith(environment: Record<string, string> = {}): Promise<CommandSetup> {
  const workingDirectory = await temporaryFolder();
  const all = { SLUICE_HOME: "home", HF_ENDPOINT: "http://127.0.0.1:1", ...environment };
  return { workingDirectory, environment: all };
}

describe("sluice model", () => {
  it("pulls, finds, lists, verifies and removes; each step twice is fine", async () => {
    const { origin } = await serve(sendFile(file));
    const setup = await setupWith({ HF_ENDPOINT: origin });
    const run = (...args: string[]) => runOne("model", model, args, setup);
    const pulled = await run("pull", name);
    expect(pulled).toMatchObject({ code: 0 });
    expect(pulled.stdout).toMatch(/fetched 0\.1 MB from hub\n.*a\.gguf\n$/);
    expect((await run("pull", name)).stdout).toContain("is here already");
    const found = await run("path", name);
    expect(found.stdout.trim()).toMatch(/home\/models\/[0-9a-f]{16}\/a\.gguf$/);
    expect(found.stdout.startsWith(setup.workingDirectory)).toBe(true);
    const listed = JSON.parse((await run("list", "--json")).stdout) as unknown;
    expect(listed).toMatchObject([{ name: "smollm2-135m-instruct" }, { name }]);
    expect((await run("list")).stdout).toMatch(/^name .*\nsmollm2.*can be pulled.*\nhf:o.* here /);
    expect((await run("verify", name)).stdout).toContain("intact");
    await writeFile(found.stdout.trim(), ggufBytes(100_000, 2));
    expect(await run("verify", name)).toMatchObject({
      code: 69,
      stderr: expect.stringContaining(`hint: run sluice model remove ${name}`),
    });
    expect((await run("remove", name)).stdout).toContain("0.1 MB free again");
    expect((await run("remove", name)).stdout).toContain("was not here");
  });

  it("finds and removes a model for transformers by the name that it lists", async () => {
    const setup = await setupWith();
    const run = (...args: string[]) => runOne("model", model, args, setup);
    const home = join(setup.workingDirectory, "home");
    const repository = "owner/name";
    const { folder, mark } = hubCache(home, { repository, revision: "main" }, "translation fp32");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "config.json"), "x".repeat(100_000));
    await writeFile(mark, markOf(repository));
    expect((await run("list")).stdout).toContain(repository);
    expect((await run("path", repository)).stdout).toBe(`${folder}\n`);
    expect((await run("remove", repository)).stdout).toContain("0.1 MB free again");
    expect((await run("list")).stdout).not.toContain(repository);
  });

  it("fails by code where nothing is, or is reached", async () => {
    const setup = await setupWith();
    const run = (...args: string[]) => runOne("model", model, args, setup);
    expect(await run("path", name)).toMatchObject({
      code: 69,
      stdout: "",
      stderr: expect.stringContaining(`hint: run sluice model pull ${name}`),
    });
    expect((await run("pull", name)).stderr).toMatch(/MODEL_DOWNLOAD_FAILED.*\n {2}hub .*REFUSED/);
    expect((await run("pull", "smollm")).stderr).toContain("MODEL_UNKNOWN");
    expect(await run("pul")).toMatchObject({ code: 64 });
  });

  it("draws a bar on a terminal and takes it away", async () => {
    const { origin } = await serve(sendFile(file));
    const setup = { ...(await setupWith({ HF_ENDPOINT: origin })), isTerminal: true };
    const { stderr } = await runOne("model", model, ["pull", name], setup);
    expect(stderr).toContain("from hub");
    expect(stderr.endsWith("\r\x1b[K")).toBe(true);
  });

  it("stops at a signal and goes on from there the next time", async () => {
    let arrived = () => {};
    const half = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const hold = { bytes: 50_000, held: () => arrived() };
    const slow = await serve(sendFile(file, { hold }));
    const setup = await setupWith({ HF_ENDPOINT: slow.origin });
    let stop: (signal: "SIGINT") => void = () => {};
    const onStart = (send: typeof stop) => {
      stop = send;
    };
    const stopping = runOne("model", model, ["pull", name], { ...setup, onStart });
    await half;
    stop("SIGINT");
    expect(await stopping).toMatchObject({
      code: 130,
      stdout: "",
      stderr: expect.stringContaining("the same command continues from here"),
    });
    const { origin } = await serve(sendFile(file));
    setup.environment = { ...setup.environment, HF_ENDPOINT: origin };
    expect(await runOne("model", model, ["pull", name], setup)).toMatchObject({ code: 0 });
  });
});
