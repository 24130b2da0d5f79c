import type { ErrorCode } from "../../foundation/error-table.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";

/** Rows stopped for their cost after which a prompt is refused. */
const maxCostlyRowsLookedAt = 2;

interface LookedAt {
  value: JsonObject;
  file?: string;
  line?: number;
}

/** Failures that take about a second each to find. */
const costlyCodes: ReadonlySet<ErrorCode> = new Set(["TEMPLATE_TOO_COSTLY", "PATTERN_TOO_SLOW"]);

/** Watches the first rows of a prompt: a prompt that fits none of them is a mistake. */
export class FitWatch {
  #failed = 0;
  #first: { error: SluiceError; row: LookedAt } | undefined;
  #isFit = false;
  #costly = 0;

  get isFit(): boolean {
    return this.#isFit;
  }

  /** True once enough rows failed, and all did, so that no more need checking. */
  get isUnfit(): boolean {
    if (this.#isFit) return false;
    return this.#failed >= limits.maxRowsLookedAt || this.#costly >= maxCostlyRowsLookedAt;
  }

  /**
   * Renders a row.
   * @throws errors of `render`.
   */
  rendered<Requests>(render: () => Requests, row: LookedAt): Requests {
    try {
      const requests = render();
      this.#isFit = true;
      return requests;
    } catch (thrown) {
      const error = asSluiceError(thrown);
      if (error.scope === "row") {
        this.#failed++;
        if (costlyCodes.has(error.code)) this.#costly++;
        this.#first ??= { error, row };
      }
      throw error;
    }
  }

  /** @throws SluiceError `PROMPT_UNFIT` if all rows failed. */
  assertFit(): void {
    if (this.#isFit || this.#first === undefined) return;
    throw unfit(this.#failed, this.#first);
  }
}

function unfit(failed: number, { error, row }: { error: SluiceError; row: LookedAt }): SluiceError {
  const { value, file, line } = row;
  const { field } = error.place;
  const rows = failed === 1 ? "the row" : `none of the first ${failed.toLocaleString("en")} rows`;
  if (error.code !== "VARIABLE_MISSING" || field === undefined) {
    const can = failed === 1 ? "cannot be sent" : "can be sent";
    return new SluiceError("PROMPT_UNFIT", `${rows} ${can}: ${error.message}`, { file, line });
  }
  // It names the prompt, and the nearest field.
  const use = error.message.replace(/^[^:]*: /, "").replace(/ \(field .*$/s, "");
  const detail = `${rows} ${failed === 1 ? "lacks" : "has"} ${field}: ${use}`;
  const names = Object.keys(value).map((name) => JSON.stringify(name));
  const has = `rows have ${names.join(", ") || "no field"}`;
  const hint = `${has}; a field that only some have is guarded: {{ ${field} | default("") }}`;
  return new SluiceError("PROMPT_UNFIT", detail, { file, line, field, hint });
}
