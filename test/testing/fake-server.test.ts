import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { startFakeServer } from "../../src/testing/fake-server.ts";

interface Reply {
  choices: unknown[];
  usage: object;
}

const post = async (url: string, body: unknown) => {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  return { status: response.status, json: (await response.json()) as Reply };
};
const question = { model: "m", messages: [{ role: "user", content: "one two" }], max_tokens: 2 };

describe("the stand-in server", () => {
  it("gives the same answer to the same request, cut at max_tokens", async () => {
    const server = await startFakeServer();
    const url = `${server.baseUrl}/chat/completions`;
    const [first, second] = [await post(url, question), await post(url, question)];
    expect(second.json.choices).toEqual(first.json.choices);
    expect(first.json.choices[0]).toMatchObject({ finish_reason: "length" });
    expect(first.json.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 2 });
    expect([...server.countsByBody]).toEqual([[JSON.stringify(question), 2]]);
    await server.close();
  });

  it("answers completions, and refuses other paths and bodies", async () => {
    const server = await startFakeServer();
    const done = await post(`${server.baseUrl}/completions`, { prompt: "a b c" });
    expect(done.json).toMatchObject({ object: "text_completion", usage: { prompt_tokens: 3 } });
    expect((await post(`${server.baseUrl}/models`, {})).status).toBe(404);
    expect((await post(`${server.baseUrl}/completions`, [])).status).toBe(400);
    await server.close();
  });

  it("runs as a process that ends with the pipe to it", async () => {
    const path = fileURLToPath(new URL("../../src/testing/fake-server-main.ts", import.meta.url));
    const child = spawn(process.execPath, [path, "--delay-ms", "5"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const exited = once(child, "exit");
    const [line] = await once(child.stdout, "data");
    const { port, baseUrl } = JSON.parse(String(line));
    expect(baseUrl).toBe(`http://127.0.0.1:${port}/v1`);
    expect((await post(`${baseUrl}/chat/completions`, question)).status).toBe(200);
    child.stdin.end();
    expect(await exited).toEqual([0, null]);
  });

  it("says a text of the test as it is, and what the test's function threw", async () => {
    const text = Array.from({ length: 30 }, (_, at) => `word${at}`).join(" ");
    const server = await startFakeServer({
      behave({ number }) {
        if (number === 2) throw new TypeError("no such row");
        return { kind: "answer", text };
      },
    });
    const url = `${server.baseUrl}/chat/completions`;
    const { max_tokens: _, ...unlimited } = question;
    const message = { role: "assistant", content: text };
    expect((await post(url, unlimited)).json.choices).toMatchObject([
      { message, finish_reason: "stop" },
    ]);
    expect((await post(url, question)).json.choices).toMatchObject([
      { message: { content: "word0 word1" }, finish_reason: "length" },
    ]);
    expect(await post(url, question)).toMatchObject({
      status: 500,
      json: { error: { message: "behave threw TypeError: no such row" } },
    });
    await server.close();
  });
});
