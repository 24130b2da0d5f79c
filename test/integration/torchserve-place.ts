import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { sluiceProgram } from "../sluice-program.ts";

/** What recorded handlers did: give back what came, and fail where the body says so. */
export const probe = `
import os
import time
from ts.utils.util import PredictionException

def handle(data, context):
    if data is None:
        return None
    replies = []
    for at, row in enumerate(data):
        body = row.get("body", row)
        told = body if isinstance(body, dict) else {}
        if "raise" in told:
            raise ValueError(told["raise"])
        if "refuse" in told:
            raise PredictionException("row is not acceptable", 422)
        if "until" in told:
            open(told["until"] + "-begun", "w").close()
            while not os.path.exists(told["until"]):
                time.sleep(0.02)
        if "exit" in told:
            os._exit(3)
        if "many" in told:
            return [1, 2, 3]
        if "text" in told:
            return "a text"
        if "teapot" in told:
            context.set_response_status(418, "I am a teapot", at)
            context.set_response_header(at, "x-row", "0")
            context.set_response_content_type(at, "application/json")
        if "see" in told:
            body = context.get_request_header(at, told["see"]) or "none"
        if "context" in told:
            properties = context.system_properties
            body = [context.manifest["model"]["modelName"], properties["gpu_id"],
                    properties["batch_size"], context.model_yaml_config,
                    os.path.basename(os.getcwd()) == os.path.basename(properties["model_dir"]),
                    len(context.get_request_id(at)), properties["server_name"]]
        replies.append(body)
    return replies
`;

/** A handler of the tutorial's form, with TorchServe's class. */
export const translator = `
import time
from ts.torch_handler.base_handler import BaseHandler

class Translator(BaseHandler):
    def initialize(self, context):
        super().initialize(context)
        self.target = context.manifest["model"]["modelName"]

    def preprocess(self, data):
        return [row["body"]["src_text"] for row in data]

    def inference(self, texts):
        self.rows = len(texts)
        time.sleep(1 if "pause" in texts else 0)
        return [text[::-1] for text in texts]

    def postprocess(self, texts):
        return [{"translated": text, "to": self.target, "rows": self.rows} for text in texts]
`;

export const nodeHandler = `
let context;
export function initialize(given) {
  context = given;
}
export function handle(requests: { body: { n: number } }[]) {
  return requests.map(({ body }) => {
    if (body.n < 0) return new Error("it is negative");
    const { gpu_id } = context.system_properties;
    return { twice: 2 * body.n, gpu_id, é: context.manifest.runtime, rows: requests.length };
  });
}
`;

/** A handler that answers by the headers of its requests. */
export const talkingHandler = `
export function handle(requests, context) {
  return requests.map((_, idx) => {
    const said = context.get_request_header(idx, "X-Say");
    if (said === undefined) return context.get_all_request_header(idx)["url_path"] ?? "nothing";
    context.set_response_status(201, "Made", idx);
    context.set_response_content_type(idx, "text/csv");
    context.set_response_header(idx, "x-said", said);
    return said === "json" ? { id: context.get_request_id(idx) } : said;
  });
}
`;

/** The same by a predictor. */
export const talkingPredictor = `
export function predict(batch, { requests }) {
  requests.set_all_response_status(202, "Taken");
  return batch.map(({ row }, idx) => ({ row, explain: requests.get_request_header(idx, "explain") }));
}
`;

const run = promisify(execFile);

/** A folder with a model store and a server. */
export class Place {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-torch-"));
  addresses: Record<string, string> = {};

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  async sluice(...args: string[]) {
    const env = { ...process.env, SLUICE_HOME: join(this.folder, "home") };
    const options = { cwd: this.folder, env, encoding: "utf8" as const };
    return run(process.execPath, [sluiceProgram, ...args], options).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      ({ code, stdout, stderr }) => ({ code: code as number, stdout, stderr }),
    );
  }

  async archive(name: string, handler: string, ...more: string[]): Promise<void> {
    const words = ["--model-name", name, "--handler", handler, "--export-path", "store", ...more];
    const { code, stderr } = await this.sluice("archive", ...words, "--force");
    expect(`${code} ${stderr}`).toBe("0 ");
  }

  async start(...args: string[]): Promise<void> {
    const { code, stderr } = await this.sluice("serve", "--start", ...args);
    expect(`${code} ${stderr}`).toBe("0 ");
    const record = JSON.parse(readFileSync(join(this.folder, ".sluice-serve.json"), "utf8"));
    this.addresses = record.addresses;
  }

  async close(): Promise<void> {
    await this.sluice("serve", "--stop");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export const anywhere = [
  "inference_address=http://127.0.0.1:0",
  "management_address=http://127.0.0.1:0",
  "metrics_address=http://127.0.0.1:0",
  "",
].join("\n");

/** Sends a request on a socket of its own and gives the reply as it came. */
export function ask(address: string, request: string, body = "", headers: string[] = []) {
  const { hostname, port } = new URL(address);
  return new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let reply = "";
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      reply += text;
      const [head = "", ...rest] = reply.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/.exec(head)?.[1]);
      const isHead = request.startsWith("HEAD");
      if (isHead || Buffer.byteLength(rest.join("\r\n\r\n")) >= length) socket.end();
    });
    socket.on("close", () => resolve(reply));
    socket.on("error", reject);
    const length = `content-length: ${Buffer.byteLength(body)}`;
    const lines = [`${request} HTTP/1.1`, "host: x", length, ...headers];
    socket.write(`${lines.join("\r\n")}\r\n\r\n${body}`);
  });
}

/** The whole reply that is expected, as bytes; the id of the request is masked on both sides. */
export function reply(status: string, body: string, type?: string, more: string[] = []): string {
  const code = Number(status.slice(0, 3));
  return [
    `HTTP/1.1 ${status}`,
    ...(type === undefined ? [] : [`content-type: ${type}`]),
    ...more,
    "x-request-id: ID",
    "Pragma: no-cache",
    "Cache-Control: no-cache; no-store, must-revalidate, private",
    "Expires: Thu, 01 Jan 1970 00:00:00 UTC",
    `content-length: ${Buffer.byteLength(body)}`,
    `connection: ${code >= 400 ? "close" : "keep-alive"}`,
    "",
    body,
  ].join("\r\n");
}

export const masked = (text: string) =>
  text
    .replace(/x-request-id: [0-9a-f-]{36}/, "x-request-id: ID")
    .replaceAll(/"startTime": "[^"]+"/g, '"startTime": "TIME"')
    .replaceAll(/"pid": \d+/g, '"pid": PID')
    .replaceAll(/"id": "\d+"/g, '"id": "ID"');

export const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
export const done = (status: string, code = "200 OK") =>
  reply(code, json({ status }), "application/json");
export const refused = (status: string, type: string, message: string) =>
  reply(status, json({ code: Number(status.slice(0, 3)), type, message }), "application/json");

export const noWorker = (name: string) =>
  refused(
    "503 Service Unavailable",
    "ServiceUnavailableException",
    `Model "${name}" has no worker to serve inference request. Please use scale workers API to add ` +
      "workers. If this is a sequence inference, please check if it is closed, or expired; or " +
      "exceeds maxSequenceJobQueueSize",
  );

export const internal = (status: string, message: string) =>
  refused(status, "InternalServerException", message);

export const asJson = "content-type: application/json";

export const bodyOf = (text: string) => text.slice(text.indexOf("\r\n\r\n") + 4);
