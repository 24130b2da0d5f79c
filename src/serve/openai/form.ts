import multipart, { type MultipartFile } from "@fastify/multipart";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { ServeLimits } from "../options.ts";
import { wrong } from "./failure.ts";

/** The fields of an upload's form, whose parts come in any order. */
export interface Form {
  filename?: string;
  fields: Map<string, string>;
}

/** Where the bytes of a form's file go. */
export interface FileTarget {
  write(bytes: Uint8Array): Promise<unknown>;
}

export interface FormLimits extends Pick<ServeLimits, "maxFileBytes" | "requestArrivalTimeoutMs"> {
  clock: Clock;
}

/** Lets the routes of a scope read forms with one file. */
export async function takeForms(scope: FastifyInstance, maxFileBytes: number): Promise<void> {
  await scope.register(multipart, {
    throwFileSizeLimit: false,
    limits: { fileSize: maxFileBytes, files: 1, fields: 16, parts: 17, fieldSize: 4096 },
  });
}

/**
 * Reads a form, whose file is written to the target.
 *
 * @throws SluiceError `REQUEST_INVALID`, `BODY_TOO_LARGE`, `PARAMETER_INVALID` for a file of
 *   another name than `file`.
 */
export async function readForm(
  request: FastifyRequest,
  target: FileTarget,
  { maxFileBytes, requestArrivalTimeoutMs, clock }: FormLimits,
): Promise<Form> {
  if (!request.isMultipart()) {
    throw new SluiceError("REQUEST_INVALID", "a file is sent as multipart/form-data");
  }
  const form: Form = { fields: new Map() };
  // A large file takes its time, but not without a byte.
  const wait = () => clock.schedule(requestArrivalTimeoutMs, () => request.raw.destroy());
  let cancel = wait();
  request.raw.on("data", () => {
    cancel();
    cancel = wait();
  });
  try {
    for await (const part of request.parts()) {
      if (part.type === "file") form.filename = await readFile(part, target, maxFileBytes);
      else form.fields.set(part.fieldname, String(part.value));
    }
    return form;
  } catch (error) {
    if (error instanceof SluiceError) throw error;
    throw new SluiceError("REQUEST_INVALID", `the form: ${(error as Error).message}`);
  } finally {
    cancel();
  }
}

async function readFile(
  { fieldname, filename, file }: MultipartFile,
  target: FileTarget,
  maxBytes: number,
): Promise<string> {
  for await (const chunk of file) await target.write(chunk as Uint8Array);
  if (fieldname !== "file") throw wrong(fieldname, "named file");
  if (file.truncated) {
    throw new SluiceError("BODY_TOO_LARGE", `a file may have ${maxBytes} bytes`, { field: "file" });
  }
  return filename;
}
