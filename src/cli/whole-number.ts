/** The number of a flag: NaN unless it is all digits, since `Number("")` is 0. */
export const wholeNumber = (text: string): number =>
  /^\d+$/.test(text) ? Number(text) : Number.NaN;
