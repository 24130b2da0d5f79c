import { basename } from "node:path";
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { FileObject, FileStore, Upload } from "../batches/file-store.ts";
import type { ServeLimits } from "../options.ts";
import { wrong } from "./failure.ts";
import { type Form, formRoute, readForm, takeForms } from "./form.ts";
import { lifeSeconds, type PageQuery, pageOf } from "./page.ts";

const pageLimits = { usual: 10_000, most: 10_000 };

/** What a client may upload a file for, by OpenAI's names. */
const purposes = ["assistants", "batch", "evals", "fine-tune", "user_data", "vision"];

const maxNameCharacters = 255;

export interface FileRoutes {
  files: FileStore;
  limits: Pick<ServeLimits, "maxFileBytes" | "requestArrivalTimeoutMs">;
  clock: Clock;
}

type ById = { Params: { id: string } };

/** OpenAI's API of files. */
export function fileRoutes(server: FastifyInstance, routes: FileRoutes): void {
  const { files, limits } = routes;
  // In a scope of its own: no other route reads forms.
  void server.register(async (scope) => {
    await takeForms(scope, limits.maxFileBytes);
    scope.post("/v1/files", formRoute, (request) => upload(request, routes));
  });
  server.get<{ Querystring: PageQuery & { purpose?: string } }>("/v1/files", async ({ query }) => {
    const { purpose } = query;
    const all = await files.all();
    const some = purpose === undefined ? all : all.filter((file) => file.purpose === purpose);
    return pageOf(some, query, pageLimits);
  });
  server.get<ById>("/v1/files/:id", async ({ params }) => files.get(params.id));
  server.delete<ById>("/v1/files/:id", async ({ params: { id } }) => {
    await files.remove(id);
    return { id, object: "file", deleted: true };
  });
  server.get<ById>("/v1/files/:id/content", { exposeHeadRoute: false }, (request, reply) =>
    sendContent(files, files.get(request.params.id), request, reply),
  );
}

async function upload(request: FastifyRequest, routes: FileRoutes): Promise<FileObject> {
  const target = await routes.files.begin();
  try {
    const { limits, clock } = routes;
    const form = await readForm(request, target, { ...limits, clock });
    return await target.finish(factsOf(form, target));
  } catch (error) {
    await target.abort();
    throw error;
  }
}

function factsOf({ filename, fields }: Form, { bytes }: Upload) {
  const purpose = fields.get("purpose");
  if (filename === undefined) throw new SluiceError("PARAMETER_MISSING", "", { field: "file" });
  if (purpose === undefined) throw new SluiceError("PARAMETER_MISSING", "", { field: "purpose" });
  if (!purposes.includes(purpose)) throw wrong("purpose", `one of ${purposes.join(", ")}`);
  const isLines = filename.toLowerCase().endsWith(".jsonl") && bytes > 0;
  if (purpose === "batch" && !isLines) {
    throw wrong("file", "lines of requests in a file whose name ends in .jsonl");
  }
  const life = Object.fromEntries(
    ["anchor", "seconds"].flatMap((key) => {
      const value = fields.get(`expires_after[${key}]`);
      return value === undefined ? [] : [[key, value]];
    }),
  );
  return {
    filename: shownName(filename),
    purpose,
    lifeSeconds: lifeSeconds("expires_after", Object.keys(life).length === 0 ? undefined : life),
  };
}

function shownName(filename: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed.
  const name = basename(filename.replace(/[\u0000-\u001f\u007f]/g, ""));
  // The cut may halve a character, and no header takes half of one.
  return name.slice(0, maxNameCharacters).toWellFormed();
}

function sendContent(
  files: FileStore,
  { id, bytes, filename }: FileObject,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const range = rangeOf(headers.range, bytes);
  const { start, end } = range ?? { start: 0, end: bytes };
  if (range) {
    void reply.status(206).header("content-range", `bytes ${start}-${end - 1}/${bytes}`);
  }
  return reply
    .headers({
      "content-type": "application/octet-stream",
      "content-length": String(end - start),
      "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(filename)}`,
      "accept-ranges": "bytes",
      // A browser must not show what strangers uploaded as a page of this server.
      "x-content-type-options": "nosniff",
    })
    .send(Readable.from(files.read(id, start, end), { objectMode: false }));
}

/**
 * The bytes that a Range header asks for; undefined for all, also where it asks for several ranges.
 *
 * @throws SluiceError `RANGE_INVALID`.
 */
export function rangeOf(
  header: string | undefined,
  bytes: number,
): { start: number; end: number } | undefined {
  const [, first = "", last = ""] = /^bytes=(\d*)-(\d*)$/.exec(header ?? "") ?? [];
  if (first === "" && last === "") return undefined;
  if (first !== "" && last !== "" && Number(last) < Number(first)) return undefined;
  const start = first === "" ? Math.max(0, bytes - Number(last)) : Number(first);
  const end = first === "" || last === "" ? bytes : Math.min(bytes, Number(last) + 1);
  if (start < end) return { start, end };
  throw new SluiceError("RANGE_INVALID", `it has ${bytes}`);
}
