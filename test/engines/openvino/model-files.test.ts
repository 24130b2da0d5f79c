import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { findWeights } from "../../../src/engines/openvino/model-files.ts";
import { modelContext, temporaryFolder } from "../models/context.ts";

const template = "{{ tools }}";

async function modelFolder(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  const names = ["openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml"];
  for (const name of names) await writeFile(join(folder, name), name);
  await mkdir(join(folder, "additional_chat_templates"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

it.each([
  ["none", {}, undefined],
  ["one in a file of its own", { "additional_chat_templates/tool_use.jinja": template }, template],
  [
    "one in a list",
    {
      "tokenizer_config.json": JSON.stringify({
        chat_template: [
          { name: "default", template: "{{ messages }}" },
          { name: "tool_use", template },
        ],
      }),
    },
    template,
  ],
  [
    "only one for all",
    { "tokenizer_config.json": '{"chat_template":"{{ messages }}"}' },
    undefined,
  ],
] as const)("finds the template for tools in a folder with %s", async (_, files, expected) => {
  const found = await findWeights(await modelFolder(files), await modelContext(), {
    download: false,
  });
  expect(found.toolTemplate).toBe(expected);
});
