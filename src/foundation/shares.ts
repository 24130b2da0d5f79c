import { SluiceError } from "./errors.ts";
import type { IndexRange } from "./index-set.ts";

/**
 * Divides things among takers and returns how many each gets. The shares differ by one at most, the
 * larger ones come first, and their sum is `total`. (`Math.floor(total / takers)` each would leave
 * out the remainder: 8 of 200 for 16 takers.)
 *
 * @param total how many things there are, 0 or more.
 * @param takers how many takers share them, 1 or more. If there are more takers than things, the
 *   last ones get 0.
 * @throws SluiceError `USAGE` if one of them is not such a whole number.
 * @example
 * shares(200, 16); // [13, 13, 13, 13, 13, 13, 13, 13, 12, 12, 12, 12, 12, 12, 12, 12]
 */
export function shares(total: number, takers: number): number[] {
  const isCount = Number.isSafeInteger(total) && total >= 0;
  if (!isCount || !Number.isSafeInteger(takers) || takers < 1) {
    const hint = "give whole numbers: 0 or more things, 1 or more takers";
    throw new SluiceError("USAGE", `${total} cannot be shared among ${takers}`, { hint });
  }
  return Array.from({ length: takers }, (_, index) => sizeOf(shareOf(total, index, takers)));
}

/**
 * The things that one taker gets, numbered from 0: share `index` (from 0) of `takers`. Shares are
 * contiguous and as large as `shares` says.
 *
 * @example
 * shareOf(10, 3, 16); // { first: 3, last: 3 }; shares 10 to 15 are empty: undefined
 */
export function shareOf(total: number, index: number, takers: number): IndexRange | undefined {
  const base = Math.floor(total / takers);
  const remainder = total % takers;
  const first = index * base + Math.min(index, remainder);
  const last = first + base + (index < remainder ? 1 : 0) - 1;
  return last < first ? undefined : { first, last };
}

/**
 * Reads a share such as `2/16`, the third of sixteen.
 *
 * @throws SluiceError `USAGE` if the text is not a share.
 */
export function parseShare(text: string): { index: number; takers: number } {
  const match = /^(\d+)\/(\d+)$/.exec(text);
  const [index, takers] = [Number(match?.[1]), Number(match?.[2])];
  if (!match || index >= takers) {
    throw new SluiceError("USAGE", `${text} is not a share such as 3/16 (from 0/16)`);
  }
  return { index, takers };
}

function sizeOf(share: IndexRange | undefined): number {
  return share === undefined ? 0 : share.last - share.first + 1;
}
