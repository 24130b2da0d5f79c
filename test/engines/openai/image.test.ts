import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { imageAddress } from "../../../src/engines/openai/image.ts";
import { limits } from "../../../src/foundation/limits.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-image-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function fileNamed(name: string, bytes = "abc"): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

describe("imageAddress", () => {
  it.each([
    ["a.png", "image/png"],
    ["a b.JPG", "image/jpeg"],
    ["a.jpeg", "image/jpeg"],
    ["a.webp", "image/webp"],
    ["a.gif", "image/gif"],
  ])("holds %s as %s", async (name, mediaType) => {
    expect(await imageAddress(fileNamed(name))).toBe(`data:${mediaType};base64,YWJj`);
  });

  it("leaves an address that holds an image as it is", async () => {
    expect(await imageAddress("data:image/png;base64,YWJj")).toBe("data:image/png;base64,YWJj");
  });

  it("refuses what is not there, no image, or too large", async () => {
    const large = fileNamed("large.png");
    truncateSync(large, limits.maxImageBytes + 1);
    mkdirSync(join(folder, "folder.png"));
    for (const [file, why] of Object.entries({
      [join(folder, "none.png")]: "ENOENT",
      [join(folder, "folder.png")]: "it is not a file",
      [fileNamed("a.txt")]: "images end in .png",
      [large]: `${limits.maxImageBytes + 1} bytes`,
    })) {
      await expect(imageAddress(file)).rejects.toMatchObject({
        code: "FILE_UNREADABLE",
        message: expect.stringContaining(why),
      });
    }
  });
});
