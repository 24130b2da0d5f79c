import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../../../src/engines/weights/chat-template.ts";
import type { ChatMessage } from "../../../src/foundation/inference.ts";

const chatMl = `{% for message in messages %}
{%- if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
Be kind<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}`;
const tokens = { bos: "<s>", eos: "</s>" };

describe("ChatTemplate", () => {
  it("keeps a row's text apart from the template's", () => {
    const pieces = new ChatTemplate(chatMl, tokens).render([
      { role: "user", content: "say <|im_end|> twice" },
    ]);
    expect(pieces).toEqual([
      { kind: "template", text: "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\n" },
      { kind: "content", text: "say <|im_end|> twice" },
      { kind: "template", text: "<|im_end|>\n<|im_start|>assistant\n" },
    ]);
  });

  it("does not let a row's text run as a template, nor pose as another message", () => {
    const [, content] = new ChatTemplate(chatMl, tokens).render([
      { role: "user", content: "{{ bos_token }} \u{F0000}0\u{F0001}" },
    ]);
    expect(content?.text).toBe("{{ bos_token }} \u{F0000}0\u{F0001}");
  });

  it("keeps white space of contents, unless the template trims", () => {
    const message = { role: "user" as const, content: "  two \n" };
    const [kept] = new ChatTemplate("{{ messages[0].content }}", tokens).render([message]);
    const [trimmed] = new ChatTemplate("{{ messages[0].content | trim }}", tokens).render([
      message,
    ]);
    expect(kept?.text).toBe("  two \n");
    expect(trimmed?.text).toBe("two");
  });

  it("tells messages apart that only white space parts", () => {
    const template = new ChatTemplate(
      "{% for m in messages %}{{ m.content }}\n{% endfor %}",
      tokens,
    );
    const pieces = template.render([
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
    ]);
    expect(pieces.map((piece) => piece.text)).toEqual(["a", "\n", "b", "\n"]);
  });

  it("gives the template its bos and eos", () => {
    const template = new ChatTemplate(
      "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
      tokens,
    );
    expect(template.render([{ role: "user", content: "x" }]).map((piece) => piece.text)).toEqual([
      "<s>",
      "x",
      "</s>",
    ]);
  });

  it("says which message a template loses", () => {
    const template = new ChatTemplate("{{ messages[1].content }}", tokens);
    const messages = ["system", "user"].map((role) => ({ role: role as "user", content: role }));
    expect(() => template.render(messages)).toThrow(/message 1/);
  });

  it("hands on what a template refuses", () => {
    const template = new ChatTemplate("{{ raise_exception('no system role') }}", tokens);
    expect(() => template.render([{ role: "system", content: "x" }])).toThrow(/no system role/);
  });

  it("refuses a template that does not parse", () => {
    expect(() => new ChatTemplate("{% for %}", tokens)).toThrow(
      expect.objectContaining({ code: "MODEL_TEMPLATE_UNUSABLE" }),
    );
  });
});

describe("ChatTemplate with tools", () => {
  const tools = [{ type: "function", function: { name: "weather", description: "<|end|> ü" } }];
  const call = (id: string, given: string) => ({
    ...{ id, type: "function" as const },
    function: { name: "weather", arguments: given },
  });
  const talk: ChatMessage[] = [
    { role: "user", content: "Rain?" },
    { role: "assistant", content: "", toolCalls: [call("call_1", '{"city":"Bern <|end|>"}')] },
    { role: "tool", content: ' {"rain": "no <|end|>"}\n', toolCallId: "call_1" },
  ];
  const special = () => ["<|end|>", "<|e"];
  const rendered = (source: string, messages = talk) =>
    new ChatTemplate(source, { ...tokens, special }).render(messages, tools);
  const textOf = (source: string, messages = talk) =>
    rendered(source, messages)
      .map(({ text }) => text)
      .join("");

  const calls = (written: string) =>
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}" +
    `${written}{% endfor %}{% endfor %}{{ tools | length }}`;

  it("knows whether a template takes tools", () => {
    const takes = (source: string) => new ChatTemplate(source, tokens).takesTools;
    expect(takes("{% if tools %}{{ tools | tojson }}{% endif %}")).toBe(true);
    expect(takes("{% for m in messages %}{{ m.content }} mytools{% endfor %}")).toBe(false);
  });

  it("shows tools, calls and results", () => {
    const source = calls(
      '{"name": "{{ c.function.name }}", "a": {{ c.function.arguments | tojson }}}',
    );
    expect(textOf(source)).toBe(
      'Rain?{"name": "weather", "a": {"city": "Bern <|end|>"}} {"rain": "no <|end|>"}\n1',
    );
  });

  it("gives arguments as a text to a template that joins texts", () => {
    expect(textOf(calls('{{ "A" + c.function.arguments }}'))).toContain('A{"city":"Bern <|end|>"}');
    const either = "{% if c.function.arguments is string %}text{% else %}object{% endif %}";
    const probed = `${either}{{ c.function.arguments | tojson }}`;
    expect(textOf(calls(probed))).toContain('object{"city": "Bern <|end|>"}');
  });

  it("gives arguments that are no JSON as a text", () => {
    const bad: ChatMessage[] = [
      talk[0]!,
      { role: "assistant", content: "Hm", toolCalls: [call("call_1", "{bad")] },
    ];
    expect(textOf(calls("{{ c.function.arguments }}"), bad)).toBe("Rain?Hm{bad1");
  });

  it("lets no special token of tools, calls and results count", () => {
    const source = "{% for t in tools %}{{ t | tojson }}{% endfor %}{{ '<|end|>' }}";
    const pieces = rendered(source + calls("{{ c | tojson }}"));
    const marked = pieces.filter(({ text }) => text.includes("<|end|>"));
    expect(marked.map(({ kind }) => kind)).toEqual(["content", "template", "content", "content"]);
    const [inTools, own, inCall, result] = marked.map(({ text }) => text);
    expect([inTools, inCall]).toEqual(["<|end|>", "<|end|>"]);
    expect(own).toMatch(/^ ü"}}<\|end\|>$/);
    expect(result).toBe(' {"rain": "no <|end|>"}\n');
  });

  it("escapes a result that the template writes as JSON", () => {
    const source = "{% for m in messages %}{{ {'output': m.content} | tojson }}{% endfor %}";
    const { output } = JSON.parse(textOf(source, [talk[2]!])) as { output: string };
    expect(output).toBe(' {"rain": "no <|end|>"}\n');
  });

  it("names the tool of a result, and keeps ids that Mistral takes", () => {
    const source =
      "{% for m in messages %}{{ m.content }}{{ m.name }}{{ m.tool_call_id }}" +
      "{% for c in m.tool_calls or [] %}{{ c.id }},{% endfor %}{% endfor %}";
    const ids = (id: string) => {
      const [user, , result] = talk;
      const messages: ChatMessage[] = [
        ...[user!, { role: "assistant", content: "", toolCalls: [call(id, "{}")] } as ChatMessage],
        { ...result, toolCallId: id } as ChatMessage,
      ];
      return textOf(source, messages);
    };
    expect(ids("abcdefghi")).toMatch(/^Rain\?abcdefghi,[\s\S]*weatherabcdefghi$/);
    expect(ids("call_1")).toMatch(/^Rain\?([0-9a-f]{9}),[\s\S]*weather\1$/);
  });

  it("lets a template drop what a message says beside its calls, and nothing else", () => {
    const spoken = [
      talk[0]!,
      { role: "assistant", content: "I look", toolCalls: [call("call_1", "{}")] } as ChatMessage,
    ];
    const source =
      "{% for m in messages %}{{ m.content if not m.tool_calls else 'C' }}{% endfor %}";
    expect(textOf(source, spoken)).toBe("Rain?C");
    const dropping = "{% for m in messages %}{{ m.content if m.role != 'tool' }}{% endfor %}";
    expect(() => textOf(dropping)).toThrow(/message 3/);
  });
});
