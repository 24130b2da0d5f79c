import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

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
 * A copy of a GGUF model with another chat template.
 *
 * @returns its path, and what removes it.
 */
export async function withTemplate(
  modelPath: string,
  template: string,
): Promise<{ path: string; remove(): Promise<void> }> {
  const bytes = await readFile(modelPath);
  const key = Buffer.from("tokenizer.chat_template");
  // The key, the type of its value (8: a text), the length of that, the value.
  const at = bytes.indexOf(key) + key.length + 4;
  const length = Number(bytes.readBigUInt64LE(at));
  const own = Buffer.byteLength(`${template}{##}`);
  // What follows moves by a multiple of the alignment.
  const filler = (((length - own) % alignment) + alignment) % alignment;
  const value = Buffer.from(`${template}{#${" ".repeat(filler)}#}`);
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(value.length));
  const folder = await mkdtemp(join(tmpdir(), "sluice-template-"));
  const path = join(folder, "model.gguf");
  await writeFile(path, [bytes.subarray(0, at), head, value, bytes.subarray(at + 8 + length)]);
  return { path, remove: () => rm(folder, { recursive: true, force: true }) };
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
