import multipart, { type MultipartFile, type MultipartValue } from "@fastify/multipart";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { ServeLimits } from "../options.ts";
import { wrong } from "./failure.ts";

/** The fields of an upload's form, whose parts come in any order. */
export interface Form {
  filename?: string;
  fields: Map<string, string>;
  /** Values of fields that may come several times, by names that end in `[]`. */
  lists: Map<string, string[]>;
}

const maxFieldBytes = 4096;

/** Where the bytes of a form's file go. */
export interface FileTarget {
  write(bytes: Uint8Array): Promise<unknown>;
}

export interface FormLimits extends Pick<ServeLimits, "maxFileBytes" | "requestArrivalTimeoutMs"> {
  clock: Clock;
}

export const formRoute = { config: { readsForms: true } };

export async function takeForms(scope: FastifyInstance, maxFileBytes: number): Promise<void> {
  await scope.register(multipart, {
    throwFileSizeLimit: false,
    limits: { fileSize: maxFileBytes, files: 1, fields: 16, parts: 17, fieldSize: maxFieldBytes },
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
  const form: Form = { fields: new Map(), lists: new Map() };
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
      else addField(form, part);
    }
    return form;
  } catch (error) {
    if (error instanceof SluiceError) throw error;
    throw new SluiceError("REQUEST_INVALID", `the form: ${(error as Error).message}`);
  } finally {
    cancel();
  }
}

function addField(
  { fields, lists }: Form,
  { fieldname: name, value, valueTruncated: isCut }: MultipartValue,
): void {
  if (isCut) {
    throw new SluiceError("BODY_TOO_LARGE", `a field may have ${maxFieldBytes} bytes`, {
      field: name,
    });
  }
  if (name.endsWith("[]")) lists.set(name, [...(lists.get(name) ?? []), String(value)]);
  else fields.set(name, String(value));
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
