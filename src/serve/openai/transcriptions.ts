import { mkdtemp, open, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { Models } from "../models.ts";
import { callOf } from "./answers.ts";
import { wrong } from "./failure.ts";
import { type Form, type FormLimits, readForm, takeForms } from "./form.ts";

export interface TranscriptionRoutes {
  models: Models;
  limits: Pick<FormLimits, "maxFileBytes" | "requestArrivalTimeoutMs">;
  clock: FormLimits["clock"];
}

/** `POST /v1/audio/transcriptions`. */
export function transcriptionRoutes(server: FastifyInstance, routes: TranscriptionRoutes): void {
  const maxFileBytes = Math.min(routes.limits.maxFileBytes, limits.maxTranscribedBytes);
  const formLimits = { ...routes.limits, maxFileBytes, clock: routes.clock };
  void server.register(async (scope) => {
    await takeForms(scope, maxFileBytes);
    scope.post("/v1/audio/transcriptions", (request, reply) =>
      transcribe(request, reply, routes.models, formLimits),
    );
  });
}

async function transcribe(
  request: FastifyRequest,
  reply: FastifyReply,
  models: Models,
  formLimits: FormLimits,
): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-audio-"));
  try {
    const path = join(folder, "audio");
    const form = await readFormInto(path, request, formLimits);
    const { filename, model, format, temperature } = askedBy(form);
    // Servers tell the form of the sound by its ending.
    const [ending = ""] = /^\.\w{1,8}$/.exec(extname(filename)) ?? [];
    await rename(path, path + ending);
    const served = models.named(model);
    const asked = served.readFile(path + ending, temperature);
    const body = asked.bodyOf(await served.ask(asked, callOf(request)));
    if (format === "json") return body;
    void reply.type("text/plain; charset=utf-8");
    return body.text;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function readFormInto(
  path: string,
  request: FastifyRequest,
  formLimits: FormLimits,
): Promise<Form> {
  const file = await open(path, "wx");
  try {
    const target = { write: (bytes: Uint8Array) => file.writeFile(bytes) };
    return await readForm(request, target, formLimits);
  } finally {
    await file.close();
  }
}

const formats = ["json", "text"];

/** @throws SluiceError for a field that is missing, wrong, or not done here. */
function askedBy({ filename, fields }: Form) {
  const { model, response_format: format = "json", ...rest } = Object.fromEntries(fields);
  const { temperature: temperatureText, stream = "false", ...others } = rest;
  if (filename === undefined) throw new SluiceError("PARAMETER_MISSING", "", { field: "file" });
  if (model === undefined) throw new SluiceError("PARAMETER_MISSING", "", { field: "model" });
  for (const field of Object.keys(others)) {
    throw new SluiceError("PARAMETER_UNSUPPORTED", "transcripts have no such parameter", { field });
  }
  if (!formats.includes(format)) {
    const detail = `${format}; transcripts are given as ${formats.join(" or ")}`;
    throw new SluiceError("PARAMETER_UNSUPPORTED", detail, { field: "response_format" });
  }
  if (stream !== "false") {
    const detail = "transcripts come as a whole";
    throw new SluiceError("PARAMETER_UNSUPPORTED", detail, { field: "stream" });
  }
  const temperature = temperatureText === undefined ? undefined : Number(temperatureText);
  if (temperature !== undefined && !(temperature >= 0 && temperature <= 1)) {
    throw wrong("temperature", "a number from 0 to 1");
  }
  return { filename, model, format, temperature };
}
