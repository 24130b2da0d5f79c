import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../../../src/engines/weights/chat-template.ts";

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
