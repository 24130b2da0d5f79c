import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { packageFile } from "../../entry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { CliIo } from "../io.ts";
import { collect } from "../run-call.ts";

/** Programs that build images, in the order in which they are tried. */
const builders = ["podman", "buildah", "docker"] as const;

interface ImageFlags {
  tag?: string;
  push?: boolean;
  buildArg?: readonly string[];
}

/** `sluice image --tag T`: builds the container image of this Sluice. */
export function register(command: Command, io: CliIo): void {
  command
    .option("--tag <tag>", "name of the image, such as images.example.com/team/sluice:1")
    .option("--push", "send it to its registry as well")
    .option(
      "--build-arg <name=value>",
      "for the Dockerfile, such as PACKAGES=python3; repeat it for more",
      collect,
    )
    .addHelpText("after", "\nIt needs podman, buildah or docker; the first that works is used.")
    .action((flags: ImageFlags) => image(flags, io));
}

async function image({ tag, push, buildArg = [] }: ImageFlags, io: CliIo): Promise<void> {
  if (tag === undefined) throw new SluiceError("USAGE", "name the image: sluice image --tag NAME");
  const root = fileURLToPath(packageFile("."));
  if (!existsSync(join(root, "dist/cli/main.cjs"))) {
    throw new SluiceError("USAGE", "this checkout is not built", { hint: "npm run build" });
  }
  const { firstWorking } = await import("../../engines/find-program.ts");
  const found = await firstWorking(builders, io.environment);
  if ("said" in found) {
    throw new SluiceError("PROGRAM_MISSING", "an image is built by podman, buildah or docker", {
      hint: `install one of them, or start it (${found.said})`,
    });
  }
  const builder = found.program;
  const settings = buildArg.flatMap((pair) => ["--build-arg", pair]);
  const file = ["--file", join(root, "Dockerfile")];
  await step(builder, ["build", "--tag", tag, ...file, ...settings, root], io);
  if (push) await step(builder, ["push", tag], io);
  io.stderr.write(`${tag} is built${push ? " and pushed" : ""} by ${builder}\n`);
}

/** Runs a builder, whose output is shown as it comes. */
async function step(builder: string, words: readonly string[], io: CliIo): Promise<void> {
  const child = spawn(builder, words, {
    env: io.environment as NodeJS.ProcessEnv,
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.on("data", (chunk: Buffer) => void io.stderr.write(chunk));
  child.stderr.on("data", (chunk: Buffer) => void io.stderr.write(chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code === 0) return;
  throw new SluiceError("USAGE", `${builder} ${words[0]} ended with code ${code}`, {
    hint: "its own words are above",
  });
}
