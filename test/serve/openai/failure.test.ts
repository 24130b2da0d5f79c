import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyReply } from "fastify";
import { describe, expect, it } from "vitest";
import { type ErrorCode, errorTable } from "../../../src/foundation/error-table.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { wireTable } from "../../../src/foundation/wire-table.ts";
import { writeFailure } from "../../../src/serve/openai/failure.ts";
import { root } from "../../meta/source-tree.ts";

/** What the wire says of an error. */
interface Said {
  status: number;
  type: string;
  code: string | null;
}

/** The table of docs/errors.md. */
function documented(): Map<ErrorCode, Said> {
  const page = readFileSync(join(root, "docs/errors.md"), "utf8");
  const rows = page.matchAll(/^\| (\d{3}) \| `(\w+)` \| (?:`(\w+)`)? *\| (`.*`) \|$/gm);
  return new Map(
    [...rows].flatMap(([, status, type, code, names]) =>
      [...names!.matchAll(/`(\w+)`/g)].map(([, name]): [ErrorCode, Said] => [
        name as ErrorCode,
        { status: Number(status), type: type!, code: code ?? null },
      ]),
    ),
  );
}

/** What the server answers. */
function answered(
  error: SluiceError,
): Said & { message: string; param: string | null; headers: Record<string, string> } {
  const headers: Record<string, string> = {};
  let status = 0;
  let body: unknown;
  const reply = {
    header(name: string, value: string) {
      headers[name] = value;
    },
    status(given: number) {
      status = given;
      return reply;
    },
    send(given: unknown) {
      body = given;
    },
  };
  writeFailure(error, reply as unknown as FastifyReply);
  const { error: said } = body as { error: Said & { message: string; param: string | null } };
  return { ...said, status, headers };
}

describe("errors over HTTP", () => {
  const table = documented();

  it("are as the table of docs/errors.md says, and the server's where it says nothing", () => {
    expect(table.size).toBeGreaterThan(20);
    for (const code of Object.keys(errorTable) as ErrorCode[]) {
      const { scope } = errorTable[code];
      const others = { status: scope === "engine" ? 503 : 500, type: "server_error", code: null };
      const error = new SluiceError(code, "it is so", { field: "body.x" });
      const message = error.message.replace("(field body.x)", "(field x)");
      expect(answered(error), code).toMatchObject({
        ...(table.get(code) ?? others),
        ...{ message: wireTable[code]?.words ?? message },
        param: "x",
      });
    }
  });

  it("have the status of the server behind the model, unless that failed", () => {
    const said = (status: number) =>
      answered(new SluiceError("PROMPT_TOO_LONG", "", { server: { status, message: "4 of 2" } }));
    expect(said(413)).toMatchObject({ status: 413, message: "4 of 2", param: null });
    expect(said(500)).toMatchObject({ status: 400, code: "context_length_exceeded" });
    const headers = { "x-should-retry": "false" };
    expect(said(429)).toMatchObject({ status: 429, headers });
    const limited = new SluiceError("ENDPOINT_DOWN", "", {
      ...{ server: { status: 429 }, retryAfterMs: 7000 },
    });
    expect(answered(limited)).toMatchObject({ status: 429, headers: { "retry-after": "7" } });
  });

  it("say when to try again", () => {
    const full = new SluiceError("QUEUE_FULL", "", { retryAfterMs: 2500 });
    expect(answered(full).headers).toEqual({ "retry-after": "3" });
    expect(answered(new SluiceError("SERVER_STOPPING")).headers).toEqual({ "retry-after": "1" });
    expect(answered(new SluiceError("BATCH_OVER")).headers).toEqual({ "x-should-retry": "false" });
    expect(answered(new SluiceError("REQUEST_INVALID")).headers).toEqual({});
  });
});
