import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { RayJobsClient } from "../../../src/backends/ray/jobs-client.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { scratchFolder } from "../../run/whole-run.ts";

type Answer = (response: ServerResponse, request: IncomingMessage, body: string) => void;

/** A dashboard that gives these answers, one after another and then the last one again. */
async function dashboard(answers: readonly Answer[], environment = {}) {
  const seen: { request: string; headers: IncomingMessage["headers"]; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      const answer = answers[Math.min(seen.length, answers.length - 1)]!;
      seen.push({ request: `${request.method} ${request.url}`, headers: request.headers, body });
      answer(response, request, body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const client = new RayJobsClient({
    address: `http://127.0.0.1:${port}/`,
    environment: { HOME: scratchFolder(), ...environment },
    // Waits are shorter than the server's.
    clock: { ...systemClock, schedule: (_, callback) => systemClock.schedule(1, callback) },
    random: seededRandom(1),
    maxSilenceMs: 200,
  });
  return { client, seen };
}

const says =
  (status: number, text: string): Answer =>
  (response) =>
    response.writeHead(status).end(text);
const drops: Answer = (_, request) => void request.socket.destroy();
const cuts: Answer = (response) => {
  response.writeHead(200, { "content-length": "100" }).write('{"status"');
  setTimeout(() => response.destroy(), 20);
};
const isSilent: Answer = () => {};
const job = { submission_id: "a-1", status: "RUNNING" };
const well = says(200, JSON.stringify(job));
const refused = (code: string, message: RegExp, hint = /./) =>
  expect.objectContaining({
    code,
    message: expect.stringMatching(message),
    hint: expect.stringMatching(hint),
  });

describe("RayJobsClient", () => {
  it("asks again after a lost connection, a cut answer, silence and a fault", async () => {
    for (const fault of [drops, cuts, isSilent, says(500, "Traceback\nbusy"), says(503, "")]) {
      const { client, seen } = await dashboard([fault, fault, well]);
      expect(await client.job("a-1")).toEqual(job);
      expect(seen.map(({ request }) => request)).toEqual(Array(3).fill("GET /api/jobs/a-1"));
    }
  });

  it("gives up after four tries, and says what it met", async () => {
    const cases: [Answer, unknown][] = [
      [drops, refused("RAY_UNREACHABLE", /127\.0\.0\.1:\d+\/: socket hang up/, /dashboard/)],
      [isSilent, refused("RAY_UNREACHABLE", /no answer within 0\.2 s/)],
      [says(500, "Traceback\nValueError: no"), refused("SCHEDULER_REFUSED", /500 ValueError: no/)],
    ];
    for (const [answer, error] of cases) {
      const { client, seen } = await dashboard([answer]);
      await expect(client.jobs()).rejects.toEqual(error);
      expect(seen).toHaveLength(4);
    }
  });

  it("takes other refusals at once, and knows what the cluster forgot", async () => {
    const cases: [Answer, unknown][] = [
      [says(401, "no token"), refused("SCHEDULER_REFUSED", /401 no token/, /RAY_AUTH_TOKEN/)],
      [says(413, ""), refused("SCHEDULER_REFUSED", /413/, /100 MiB/)],
      [says(200, "<html>"), refused("SCHEDULER_REFUSED", /no dashboard of Ray answers/)],
    ];
    for (const [answer, error] of cases) {
      const { client, seen } = await dashboard([answer]);
      await expect(client.job("a-1")).rejects.toEqual(error);
      expect(seen).toHaveLength(1);
    }
    const { client } = await dashboard([says(404, "unknown")]);
    expect(await client.job("a-1")).toBeUndefined();
    expect(await client.logs("a-1")).toBeUndefined();
    await client.stop("a-1");
    await expect(client.jobs()).rejects.toEqual(refused("SCHEDULER_REFUSED", /404 unknown/));
  });

  it("submits once, also if the answer to it is lost, and no package twice", async () => {
    const exists = says(500, "Traceback\nValueError: Job with submission_id a-1 already exists.");
    const submission = { submission_id: "a-1", entrypoint: "x", runtime_env: {}, metadata: {} };
    const lost = await dashboard([drops, exists]);
    await lost.client.submit(submission);
    expect(lost.seen.map(({ body }) => JSON.parse(body))).toEqual([submission, submission]);
    const package_ = await dashboard([says(404, ""), drops, says(200, ""), says(200, "")]);
    for (let time = 1; time <= 2; time++) {
      expect(await package_.client.upload("p.zip", Buffer.from("zip"))).toBe("gcs://p.zip");
    }
    const path = "/api/packages/gcs/p.zip";
    expect(package_.seen.map(({ request }) => request)).toEqual(
      ["GET", "PUT", "PUT", "GET"].map((method) => `${method} ${path}`),
    );
    expect(package_.seen[2]!.body).toBe("zip");
  });

  it("sends the token of Ray's own programs, and no header of a browser", async () => {
    const folder = scratchFolder();
    writeFileSync(join(folder, "token"), "of-the-file\n");
    const path = { RAY_AUTH_TOKEN_PATH: join(folder, "token") };
    const cases = [
      [{}, undefined],
      [path, "Bearer of-the-file"],
      [{ ...path, RAY_AUTH_TOKEN: "own" }, "Bearer own"],
    ] as const;
    for (const [environment, authorization] of cases) {
      const { client, seen } = await dashboard([well], environment);
      await client.job("a-1");
      const { headers } = seen[0]!;
      expect(headers.authorization).toBe(authorization);
      expect(Object.keys(headers).filter((name) => /^sec-|origin|referer/.test(name))).toEqual([]);
    }
  });
});
