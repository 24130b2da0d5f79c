import { SluiceError } from "../foundation/errors.ts";
import { nearest } from "../foundation/suggest.ts";
import type { ServedModel } from "./served-model.ts";

export class Models {
  readonly #byName = new Map<string, ServedModel>();
  /** Names of those that are still being loaded. */
  coming: ReadonlySet<string> = new Set();

  add(model: ServedModel): void {
    this.#byName.set(model.name, model);
  }

  remove(name: string): void {
    this.#byName.delete(name);
  }

  all(): ServedModel[] {
    return [...this.#byName.values()];
  }

  get(name: string): ServedModel | undefined {
    return this.#byName.get(name);
  }

  /** @throws SluiceError `MODEL_NOT_SERVED`, with the nearest name, or `MODEL_LOADING`. */
  named(name: string): ServedModel {
    const found = this.#byName.get(name);
    if (found) return found;
    if (this.coming.has(name)) throw new SluiceError("MODEL_LOADING", name, { field: "model" });
    const names = [...this.#byName.keys()];
    const meant = nearest(name, names);
    const more = meant === undefined ? `it has ${names.join(", ")}` : `did you mean ${meant}?`;
    throw new SluiceError("MODEL_NOT_SERVED", `${name}; ${more}`, { field: "model" });
  }
}
