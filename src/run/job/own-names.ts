import type { Origin } from "./problem.ts";

/**
 * Our names for keys that others name differently. A key that one layer of a job gives under two
 * names keeps the other name, under which the schema refuses it.
 */
export class OwnNames {
  readonly #ownByOther: ReadonlyMap<string, string>;
  readonly #spellings = new Map<string, { name: string; from: Origin["from"] }>();

  constructor(ownByOther: ReadonlyMap<string, string>) {
    this.#ownByOther = ownByOther;
  }

  /** The name under which a layer's key goes on. */
  of(name: string, from: Origin["from"]): string {
    const own = this.#ownByOther.get(name) ?? name;
    const known = this.#spellings.get(own);
    if (known === undefined || known.from !== from || known.name === name) {
      this.#spellings.set(own, { name, from });
      return own;
    }
    return name === own ? known.name : name;
  }

  /** To be called where a layer gives all keys at once: they take the place of those before. */
  forget(): void {
    this.#spellings.clear();
  }
}
