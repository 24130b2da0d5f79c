import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Hardware, lockFor } from "../../../src/engines/packages/lock.ts";
import {
  addEngine,
  listEngines,
  locateEnginePackage,
  type PackageContext,
  removeEngine,
} from "../../../src/engines/packages/packages.ts";
import { modelContext, pathWithProgram, temporaryFolder } from "../models/context.ts";

const machine = { platform: "linux", architecture: "x64", hardware: "cpu" } as const;

/** Puts a module that looks like the engine's into a folder. */
async function placeModule(folder: string, version: string): Promise<string> {
  const directory = join(folder, "node_modules", "node-llama-cpp");
  await mkdir(join(directory, "dist"), { recursive: true });
  await writeFile(join(directory, "package.json"), JSON.stringify({ version }));
  await writeFile(join(directory, "dist", "index.js"), "export {};");
  return directory;
}

/** An npm that "installs" by making the files, and writes down how it was called. */
async function npmScript(log: string, version = "3.22.1"): Promise<string> {
  return pathWithProgram(
    "npm",
    `echo "$*" >> ${log}
test -f package-lock.json || exit 9
# The real one takes a folder that is named by a link for another package.
[ "$3" = "$(pwd -P)" ] || { echo "npm error code EUSAGE" >&2; exit 1; }
mkdir -p node_modules/node-llama-cpp/dist node_modules/@node-llama-cpp/linux-x64
echo '{"version":"${version}"}' > node_modules/node-llama-cpp/package.json
echo 'export {};' > node_modules/node-llama-cpp/dist/index.js`,
  );
}

async function packageContext(environment: Record<string, string> = {}): Promise<PackageContext> {
  const workingDirectory = await temporaryFolder();
  return { ...(await modelContext(environment)), workingDirectory, machine };
}

/** Places what of a package for `hardware` is looked at; returns its `node_modules`. */
async function placeNatives(context: PackageContext, hardware: Hardware): Promise<string> {
  const { folder, parts } = lockFor("llama", { ...machine, hardware });
  const root = join(context.homeDirectory, "engines", folder);
  await placeModule(root, "3.22.1");
  for (const part of parts) await mkdir(join(root, part), { recursive: true });
  return join(root, "node_modules");
}

/** An npm that makes what the packages of transformers.js leave behind, for all platforms. */
function transformersNpm(): Promise<string> {
  return pathWithProgram(
    "npm",
    `modules=node_modules/@huggingface/transformers
mkdir -p $modules/dist
echo '{"version":"4.3.1"}' > $modules/package.json
echo 'export {};' > $modules/dist/transformers.node.mjs
for machine in linux/x64 linux/arm64 darwin/arm64 win32/x64; do
  mkdir -p node_modules/onnxruntime-node/bin/napi-v6/$machine
done`,
  );
}

describe("locateEnginePackage", () => {
  it("prefers the project's own node_modules, from any folder of the project", async () => {
    const context = await packageContext();
    const directory = await placeModule(context.workingDirectory!, "3.22.1");
    const inside = join(context.workingDirectory!, "a", "b");
    await mkdir(inside, { recursive: true });
    const there = { ...context, workingDirectory: inside };
    expect(await locateEnginePackage("llama", there, { install: false })).toEqual({
      directory,
      entry: join(directory, "dist", "index.js"),
      version: "3.22.1",
      source: "project",
    });
  });

  it("adds packages below a folder that is a link", async () => {
    const PATH = await npmScript(join(await temporaryFolder(), "log"));
    const context = await packageContext({ PATH });
    await mkdir(context.homeDirectory, { recursive: true });
    await symlink(await temporaryFolder(), join(context.homeDirectory, "engines"));
    const added = await locateEnginePackage("llama", context, { install: true });
    expect(added).toMatchObject({ source: "home", version: "3.22.1" });
  });

  it.each(["vulkan", "cuda"] as const)(
    "uses a package for %s that was added by name",
    async (hardware) => {
      const PATH = await npmScript(join(await temporaryFolder(), "log"));
      const context = await packageContext({ PATH });
      const { located: ofCpu } = await addEngine("llama", context);
      const modules = await placeNatives(context, hardware);
      expect(await locateEnginePackage("llama", context, { install: false })).toMatchObject({
        entry: join(modules, "node-llama-cpp/dist/index.js"),
      });
      const asked = { install: false, hardware: "cpu" } as const;
      expect(await locateEnginePackage("llama", context, asked)).toEqual(ofCpu);
    },
  );

  it("does not use another version, and says so", async () => {
    const lines: string[] = [];
    const context = await packageContext();
    const logger = { log: (_level: string, line: string) => lines.push(line) };
    await placeModule(context.workingDirectory!, "3.20.0");
    const locating = locateEnginePackage("llama", { ...context, logger }, { install: false });
    await expect(locating).rejects.toMatchObject({
      code: "ENGINE_MISSING",
      hint: "run sluice engine add llama",
    });
    expect(lines).toEqual(["node-llama-cpp of the project is another version, not used"]);
  });

  it("adds it once for many askers at once", async () => {
    const log = join(await temporaryFolder(), "log");
    const context = await packageContext({ PATH: await npmScript(log) });
    const asked = Array.from({ length: 4 }, () =>
      locateEnginePackage("llama", context, { install: true }),
    );
    const entries = new Set((await Promise.all(asked)).map((located) => located.entry));
    const folder = join(context.homeDirectory, "engines", "llama-3.22.1-linux-x64");
    expect([...entries]).toEqual([join(folder, "node_modules/node-llama-cpp/dist/index.js")]);
    expect(await readdir(join(context.homeDirectory, "engines"))).toEqual([
      "llama-3.22.1-linux-x64",
    ]);
    const calls = (await readFile(log, "utf8")).trim().split("\n");
    expect(calls).toHaveLength(1);
    expect(calls[0]).toMatch(/^ci --prefix .*--ignore-scripts/);
  });

  it("adds again what is damaged", async () => {
    const log = join(await temporaryFolder(), "log");
    const context = await packageContext({ PATH: await npmScript(log) });
    const { located } = await addEngine("llama", context);
    await rm(located.entry);
    expect(await addEngine("llama", context)).toEqual({ located, added: true });
    expect(await addEngine("llama", context)).toEqual({ located, added: false });
  });

  it("waits for another process that took its lock over, and adds nothing meanwhile", async () => {
    const real = (await npmScript(join(await temporaryFolder(), "log"))).split(":")[0];
    const context = await packageContext();
    const lock = join(context.homeDirectory, "engines", "llama-3.22.1-linux-x64.lock");
    const once = join(await temporaryFolder(), "once");
    const takeOver = `[ -e ${once} ] || echo '{"id":"elsewhere"}' > ${lock}; touch ${once}`;
    const PATH = await pathWithProgram("npm", `${takeOver}\nexec ${real}/npm "$@"`);
    let waits = 0;
    const onWait = () => {
      waits++;
      void rm(lock);
    };
    const taken = { ...context, environment: { ...context.environment, PATH } };
    expect(await addEngine("llama", taken, { onWait })).toMatchObject({ added: true });
    expect(waits).toBe(1);
  });

  it("trims nothing in the folder of the process that took its lock over", async () => {
    const real = (await transformersNpm()).split(":")[0];
    const context = await packageContext();
    const root = join(context.homeDirectory, "engines");
    const lock = join(root, "transformers-4.3.1-linux-x64.lock");
    const once = join(await temporaryFolder(), "once");
    const takeOver = `[ -e ${once} ] || echo '{"id":"elsewhere"}' > ${lock}; touch ${once}`;
    const PATH = await pathWithProgram("npm", `${takeOver}\nexec ${real}/npm "$@"`);
    const binaries = "node_modules/onnxruntime-node/bin/napi-v6/win32/x64";
    let isThere = false;
    const onWait = () => {
      isThere = existsSync(join(root, ".adding-transformers-4.3.1-linux-x64", binaries));
      void rm(lock);
    };
    const taken = { ...context, environment: { ...context.environment, PATH } };
    expect(await addEngine("transformers", taken, { onWait })).toMatchObject({ added: true });
    expect(isThere).toBe(true);
  });

  it("leaves nothing and tells npm's reason when npm fails", async () => {
    const npm =
      "echo 'npm error code EINTEGRITY' >&2; echo 'npm error wanted sha512-x' >&2; exit 1";
    const context = await packageContext({ PATH: await pathWithProgram("npm", npm) });
    await expect(addEngine("llama", context)).rejects.toMatchObject({
      code: "ENGINE_INSTALL_FAILED",
      message: expect.stringContaining("code EINTEGRITY; wanted sha512-x"),
    });
    expect(await readdir(join(context.homeDirectory, "engines"))).toEqual([]);
  });

  it("does not believe an npm that installed nothing, or that is not there", async () => {
    const idle = await packageContext({ PATH: await pathWithProgram("npm", "true") });
    await expect(addEngine("llama", idle)).rejects.toThrow(
      /npm left no node_modules\/node-llama-cpp/,
    );
    const lame = await packageContext({ PATH: await pathWithProgram("npm", "exec no-node") });
    await expect(addEngine("llama", lame)).rejects.toThrow(/npm ended with code 127: .*no-node/);
    const none = await packageContext({ PATH: "/nowhere" });
    await expect(addEngine("llama", none)).rejects.toThrow(/there is no npm on PATH/);
  });

  it("uses the very npm that runs the script, without its project", async () => {
    const folder = await temporaryFolder();
    const script = join(folder, "npm-cli.js");
    await writeFile(
      script,
      `const { npm_config_local_prefix: prefix, npm_config_cache: cache } = process.env;
console.error("npm error saw", prefix, cache); process.exitCode = 1;`,
    );
    await chmod(script, 0o755);
    const context = await packageContext({
      npm_execpath: script,
      npm_node_execpath: process.execPath,
      npm_config_local_prefix: "/elsewhere",
      npm_config_cache: "/kept",
    });
    await expect(addEngine("llama", context)).rejects.toThrow(/saw undefined \/kept/);
  });

  it("gives npm the settings whose names a shell drops, and keeps none of them", async () => {
    const saved = join(await temporaryFolder(), "npmrc");
    const save = `cp -p .npmrc ${saved}`;
    const real = (await npmScript(join(await temporaryFolder(), "log"))).split(":")[0];
    const PATH = await pathWithProgram("npm", `${save}\nexec ${real}/npm "$@"`);
    const context = await packageContext({
      PATH,
      "npm_config_//nexus.corp:8081/a_b/:_authToken": 'sec"ret',
      "npm_config_@corp:registry": "https://nexus.corp/",
      NPM_CONFIG_REGISTRY: "https://nexus.corp/",
    });
    const { located } = await addEngine("llama", context);
    expect(await readFile(saved, "utf8")).toBe(
      '//nexus.corp:8081/a_b/:_authToken = "sec\\"ret"\n@corp:registry = "https://nexus.corp/"\n',
    );
    expect((await stat(saved)).mode & 0o777).toBe(0o600);
    expect(existsSync(join(located.directory, "../../.npmrc"))).toBe(false);
  });
});

it.each(["npm", "python3"])("%s ends with the process that started it", async (name) => {
  const folder = await temporaryFolder();
  const log = join(folder, "pid");
  const PATH = await pathWithProgram(name, `echo $$ > ${log}.new; mv ${log}.new ${log}; sleep 60`);
  const holder = spawn(
    process.execPath,
    [join(import.meta.dirname, "install-holder.ts"), name, folder],
    { env: { PATH }, stdio: "inherit" },
  );
  await expect.poll(() => existsSync(log), { timeout: 10_000 }).toBe(true);
  const pid = Number(readFileSync(log, "utf8"));
  holder.kill("SIGKILL");
  const isAlive = () => existsSync(`/proc/${pid}`);
  await expect.poll(isAlive, { timeout: 10_000 }).toBe(false);
});

describe("listEngines and removeEngine", () => {
  it("say what is here", async () => {
    const log = join(await temporaryFolder(), "log");
    const context = await packageContext({ PATH: await npmScript(log) });
    const [before] = await listEngines(context);
    expect(before).toEqual({
      engine: "llama",
      module: "node-llama-cpp",
      version: "3.22.1",
      bytes: 0,
    });
    const { located } = await addEngine("llama", context);
    expect(await listEngines(context)).toMatchObject([
      { located },
      { engine: "openvino" },
      { engine: "transformers" },
    ]);
    expect(await removeEngine("llama", context)).toBeGreaterThan(0);
    expect(await removeEngine("llama", context)).toBe(0);
    expect(await readdir(dirname(dirname(dirname(located.directory))))).toEqual([]);
  });

  it("count and remove what a killed process left, and say where they cannot read", async () => {
    const context = await packageContext();
    const root = join(context.homeDirectory, "engines");
    await mkdir(join(root, ".adding-llama-0.0.0-linux-x64"), { recursive: true });
    await writeFile(join(root, ".adding-llama-0.0.0-linux-x64/part"), "1234");
    expect(await removeEngine("llama", context)).toBe(4);
    expect(await readdir(root)).toEqual([]);
    const looped = join(await temporaryFolder(), "loop");
    await symlink(looped, looped);
    await expect(
      removeEngine("llama", { ...context, homeDirectory: looped }),
    ).rejects.toMatchObject({ code: "STORE_FAILED" });
  });

  it("say why an engine cannot be added here", async () => {
    const context = await packageContext();
    const other = { ...machine, platform: "win32" };
    const [listing] = await listEngines({ ...context, machine: other });
    expect(listing?.refusal).toMatch(/win32-x64 with cpu; run npm install node-llama-cpp@3\.22\.1/);
  });
});

describe("the package of engine transformers", () => {
  it("is trimmed to this machine, with a stand-in for what reads images", async () => {
    const context = await packageContext({ PATH: await transformersNpm() });
    const { located } = await addEngine("transformers", context);
    const modules = join(dirname(located.entry), "../../..");
    const binaries = join(modules, "onnxruntime-node/bin/napi-v6");
    expect(await readdir(join(binaries, "linux"))).toEqual(["x64"]);
    expect(await readdir(join(binaries, "darwin"))).toEqual([]);
    expect(await readFile(join(modules, "sharp/index.js"), "utf8")).toContain("images");
  });
});
