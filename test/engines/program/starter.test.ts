import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { programModel } from "../../../src/engines/program/options.ts";
import { openStarter } from "../../../src/engines/program/starter.ts";
import { engineContext } from "../engine-context.ts";

const image = "example/tool:1";

function folderWith(...names: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-starter-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of names) mkdirSync(join(folder, name), { recursive: true });
  return folder;
}

/** A starter of programs on a machine without `unshare`, and what it said. */
async function starterOf(model: object, variables: Record<string, string> = {}) {
  const said: string[] = [];
  const starter = await openStarter(
    programModel.parse({ engine: "program", ...model }),
    engineContext({
      environment: { PATH: "/nowhere", ...variables },
      logger: { log: (_level, line) => void said.push(line) },
    }),
    "run",
  );
  onTestFinished(() => starter.close());
  const run = async (text: string, mounts: { path: string; place: string }[] = []) => {
    const cmds = ["/bin/sh", "-c", text];
    const task = { row: 0, index: "0", id: "0", cmds, args: [], environment: {} };
    const program = await starter.start(task, mounts);
    let out = "";
    program.stdout.on("data", (chunk) => {
      out += chunk;
    });
    const { code } = await program.ended;
    return { code, out };
  };
  return { starter, said, run };
}

describe("a program", () => {
  it("starts where its worker did on a machine without its folder, which is said", async () => {
    const folder = folderWith();
    const here = await starterOf({ workingDirectory: folder });
    expect(await here.run("pwd")).toEqual({ code: 0, out: `${folder}\n` });
    expect(here.said).toEqual([]);
    const gone = join(folder, "gone");
    const elsewhere = await starterOf({ workingDirectory: gone });
    expect(await elsewhere.run("pwd")).toEqual({ code: 0, out: `${process.cwd()}\n` });
    expect(elsewhere.said).toEqual([
      `there is no folder ${gone} on this machine: programs start where their worker did`,
    ]);
  });

  it("finds mounts at their paths inside an image, by links of its try", async () => {
    // The image has an empty folder where the mount belongs.
    const folder = folderWith("image/input", "first", "second");
    for (const name of ["first", "second"]) writeFileSync(join(folder, name, "a"), name);
    const path = join(folder, "image/input");
    const mounts = [{ path, location: "s3://bucket/in" }];
    const { starter, run, said } = await starterOf(
      { image, mounts },
      { SLUICE_INSIDE_IMAGE: image },
    );
    expect([starter.choices, said]).toEqual([{ mounts: "paths" }, []]);
    const variable = `SLUICE_MOUNT${path.replaceAll(/[^A-Za-z0-9]+/g, "_")}`.toUpperCase();
    for (const place of ["first", "second"]) {
      const text = `/bin/cat ${path}/a; echo " $${variable}"; echo > ${path}/new`;
      const bind = { path, place: join(folder, place) };
      expect(await run(text, [bind])).toEqual({ code: 0, out: `${place} ${path}\n` });
      expect(existsSync(join(folder, place, "new"))).toBe(true);
    }
    await starter.close();
    expect(existsSync(path)).toBe(false);
  });

  it("finds them by variables where something stands at a path, or others live there", async () => {
    const folder = folderWith("full");
    writeFileSync(join(folder, "full/file"), "kept");
    const inside = { SLUICE_INSIDE_IMAGE: image };
    const mountAt = (path: string) => ({
      mounts: [{ path: join(folder, path), location: "s3://bucket/in" }],
    });
    for (const [model, variables] of [
      [{ image, ...mountAt("full") }, inside],
      [{ image, instances: 2, ...mountAt("new") }, inside],
      [mountAt("new"), {}],
    ] as const) {
      const { starter, said } = await starterOf(model, variables);
      expect(starter.choices).toEqual({ mounts: "variables" });
      expect(said.join()).toContain("programs find them at $SLUICE_MOUNT_");
      expect(existsSync(join(folder, "new"))).toBe(false);
    }
    expect(readFileSync(join(folder, "full/file"), "utf8")).toBe("kept");
  });
});
