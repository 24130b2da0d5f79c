import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const key = "tokenizer.chat_template";
/** Where a file says how many pairs of keys and values it has. */
const pairsAt = 16;
/** Tensors begin at multiples of it. */
const alignment = 32;

/** A conversation in ChatML, with tools as Hermes and Qwen have them. */
export const hermesTemplate = `{%- if tools %}<|im_start|>system
You may call these tools:
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Call one like this:
<tool_call>
{"name": <name>, "arguments": <object>}
</tool_call><|im_end|>
{% endif %}{%- for message in messages %}{{ '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\\n' }}
{%- if message.role == 'tool' %}<tool_response>
{{ message.content }}
</tool_response>{% else %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;

/**
 * A copy of a GGUF model with another chat template, or with one more, of the name `tool_use`.
 *
 * @returns its path, and what removes it.
 */
export async function withTemplate(
  modelPath: string,
  template: string,
  isNamed = false,
): Promise<{ path: string; remove(): Promise<void> }> {
  const bytes = await readFile(modelPath);
  // The length of the key, the key, the type of its value (8: a text), the value.
  const at = bytes.indexOf(key) - 8;
  const textAt = at + 8 + key.length + 4;
  const end = textAt + 8 + Number(bytes.readBigUInt64LE(textAt));
  const pairOf = (more: string) =>
    Buffer.concat([
      ggufText(isNamed ? `${key}.tool_use` : key),
      Buffer.of(8, 0, 0, 0),
      ggufText(`${template}{#${more}#}`),
    ]);
  // What follows moves by a multiple of the alignment.
  const replaced = isNamed ? 0 : end - at;
  const moved = pairOf("").length - replaced;
  const pair = pairOf(" ".repeat((alignment - (moved % alignment)) % alignment));
  if (isNamed) bytes.writeBigUInt64LE(bytes.readBigUInt64LE(pairsAt) + 1n, pairsAt);
  const folder = await mkdtemp(join(tmpdir(), "sluice-template-"));
  const path = join(folder, "model.gguf");
  // As converters write it: the template without a name is the last one.
  await writeFile(path, [bytes.subarray(0, at), pair, bytes.subarray(at + replaced)]);
  return { path, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** A text of GGUF, behind its length. */
function ggufText(text: string): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([length, Buffer.from(text)]);
}

const user = (content: string) => ({ role: "user", content });

/** A conversation after which the small model calls the weather of its own accord. */
export const primed = [
  ...["Rome", "Paris"].flatMap((city) => [
    user(`How is the weather in ${city}?`),
    {
      ...{ role: "assistant", content: "I look it up." },
      tool_calls: [
        {
          ...{ id: `call_${city}`, type: "function" },
          function: { name: "weather", arguments: `{"city": "${city}", "unit": "celsius"}` },
        },
      ],
    },
  ]),
  user("How is the weather in Bern?"),
];
