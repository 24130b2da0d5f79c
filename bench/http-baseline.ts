import { readFileSync, writeFileSync } from "node:fs";
import { Pool } from "undici";

// A bare loop over undici: read rows, ask a server about each, write them with its answers.
// node http-baseline.ts INPUT OUTPUT BASE_URL MAX_IN_FLIGHT

const [input, output, baseUrl, width] = process.argv.slice(2) as [string, string, string, string];
const url = new URL(baseUrl);
const pool = new Pool(url.origin, { connections: Number(width) });
const path = `${url.pathname}/chat/completions`;
const headers = { "content-type": "application/json" };
const lines = readFileSync(input, "utf8").trimEnd().split("\n");
const results: string[] = [];
let next = 0;

async function loop(): Promise<void> {
  for (let at = next++; at < lines.length; at = next++) {
    const row = JSON.parse(lines[at]!) as { text: string };
    const messages = [{ role: "user", content: row.text }];
    const body = JSON.stringify({ model: "bench", messages, max_tokens: 256, temperature: 0 });
    const reply = await pool.request({ path, method: "POST", headers, body });
    const completion = (await reply.body.json()) as {
      choices: { message: { content: string } }[];
    };
    const answer = completion.choices[0]!.message.content;
    results[at] = JSON.stringify({ ...row, answer });
  }
}

await Promise.all(Array.from({ length: Number(width) }, loop));
writeFileSync(output, `${results.join("\n")}\n`);
await pool.close();
