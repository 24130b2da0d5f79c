import { mkdtemp, open, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import type { TimedTranscript, Transcription } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { Models } from "../models.ts";
import { callOf } from "./answers.ts";
import { wrong } from "./failure.ts";
import { type Form, type FormLimits, formRoute, readForm, takeForms } from "./form.ts";

export interface TranscriptionRoutes {
  models: Models;
  limits: Pick<FormLimits, "maxFileBytes" | "requestArrivalTimeoutMs">;
  clock: FormLimits["clock"];
}

/** `POST /v1/audio/transcriptions` and `POST /v1/audio/translations`. */
export function transcriptionRoutes(server: FastifyInstance, routes: TranscriptionRoutes): void {
  const maxFileBytes = Math.min(routes.limits.maxFileBytes, limits.maxTranscribedBytes);
  const formLimits = { ...routes.limits, maxFileBytes, clock: routes.clock };
  void server.register(async (scope) => {
    await takeForms(scope, maxFileBytes);
    for (const [path, translate] of [
      ["transcriptions", false],
      ["translations", true],
    ] as const) {
      scope.post(`/v1/audio/${path}`, formRoute, (request, reply) =>
        transcribe(request, reply, { models: routes.models, formLimits, translate }),
      );
    }
  });
}

async function transcribe(
  request: FastifyRequest,
  reply: FastifyReply,
  how: { models: Models; formLimits: FormLimits; translate: boolean },
): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-audio-"));
  try {
    const path = join(folder, "audio");
    const { form, content } = await readFormInto(path, request, how.formLimits);
    const { filename, model, format, ...asked } = askedBy(form, how.translate);
    // Servers tell the form of the sound by its ending.
    const [ending = ""] = /^\.\w{1,8}$/.exec(extname(filename)) ?? [];
    await rename(path, path + ending);
    const served = how.models.named(model);
    const read = served.readFile(path + ending, asked);
    const body = read.bodyOf(await served.ask(read, { ...callOf(request), content }));
    if (format === "json") return body;
    if (format === "verbose_json")
      return { task: how.translate ? "translate" : "transcribe", ...body };
    void reply.type(format === "vtt" ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8");
    return format === "text" ? body.text : subtitles(body as TimedTranscript, format);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** @returns the digest of the file as `content`. */
async function readFormInto(
  path: string,
  request: FastifyRequest,
  formLimits: FormLimits,
): Promise<{ form: Form; content: string }> {
  const file = await open(path, "wx");
  const hash = sha256Stream();
  try {
    const write = (bytes: Uint8Array) => {
      hash.update(bytes);
      return file.writeFile(bytes);
    };
    const form = await readForm(request, { write }, formLimits);
    return { form, content: hash.digest("hex") };
  } finally {
    await file.close();
  }
}

const formats = ["json", "text", "verbose_json", "srt", "vtt"] as const;
type Format = (typeof formats)[number];

const granularities = ["segment", "word"] as const;
const granularityField = "timestamp_granularities[]";

interface AskedTranscript extends Transcription {
  filename: string;
  model: string;
  format: Format;
  temperature?: number | undefined;
}

/** @throws SluiceError for a field that is missing, wrong, or not done here. */
function askedBy({ filename, fields, lists }: Form, translate: boolean): AskedTranscript {
  const { model, response_format: format = "json", ...rest } = Object.fromEntries(fields);
  const { temperature: temperatureText, stream = "false", language, prompt, ...others } = rest;
  if (filename === undefined) throw new SluiceError("PARAMETER_MISSING", "", { field: "file" });
  if (model === undefined) throw new SluiceError("PARAMETER_MISSING", "", { field: "model" });
  const { [granularityField]: times = [], ...otherLists } = Object.fromEntries(lists);
  for (const field of Object.keys({ ...others, ...otherLists })) {
    throw new SluiceError("PARAMETER_UNSUPPORTED", "transcripts have no such parameter", { field });
  }
  if (!isOneOf(formats, format)) throw wrong("response_format", `one of ${formats.join(", ")}`);
  if (stream !== "false") {
    const detail = "transcripts come as a whole";
    throw new SluiceError("PARAMETER_UNSUPPORTED", detail, { field: "stream" });
  }
  const temperature = temperatureText === undefined ? undefined : Number(temperatureText);
  if (temperature !== undefined && !(temperature >= 0 && temperature <= 1)) {
    throw wrong("temperature", "a number from 0 to 1");
  }
  return {
    ...{ filename, model, format, temperature, translate, language, prompt },
    ...timesOf(format, times, translate),
  };
}

function timesOf(
  format: Format,
  asked: readonly string[],
  translate: boolean,
): Pick<Transcription, "times"> {
  if (asked.length > 0 && translate) {
    const detail = "translations have the times of their segments alone";
    throw new SluiceError("PARAMETER_UNSUPPORTED", detail, { field: granularityField });
  }
  if (asked.length > 0 && format !== "verbose_json") {
    throw wrong(granularityField, "left out, or response_format must be verbose_json");
  }
  const known = asked.filter((each) => isOneOf(granularities, each));
  if (known.length < asked.length) {
    throw wrong(granularityField, `some of ${granularities.join(", ")}`);
  }
  if (format === "json" || format === "text") return {};
  return { times: known.length > 0 ? known : ["segment"] };
}

function isOneOf<Text extends string>(texts: readonly Text[], text: string): text is Text {
  return (texts as readonly string[]).includes(text);
}

/** The segments of a transcript as subtitles: SubRip or WebVTT. */
function subtitles({ segments = [] }: TimedTranscript, format: "srt" | "vtt"): string {
  const cues = segments.map(({ start, end, text }, at) => {
    const times = `${cueTime(start, format)} --> ${cueTime(end, format)}`;
    return `${format === "srt" ? `${at + 1}\n` : ""}${times}\n${text.trim()}\n\n`;
  });
  return (format === "vtt" ? "WEBVTT\n\n" : "") + cues.join("");
}

function cueTime(seconds: number, format: "srt" | "vtt"): string {
  const ms = Math.round(seconds * 1000);
  const digits = (value: number, count: number) => String(value).padStart(count, "0");
  const [hours, minutes] = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60];
  const whole = [hours, minutes, Math.floor(ms / 1000) % 60].map((each) => digits(each, 2));
  return `${whole.join(":")}${format === "srt" ? "," : "."}${digits(ms % 1000, 3)}`;
}
