import { it } from "vitest";

/** True in `npm run test:long`, for numbers that are larger there. */
export const isLong = process.env.TEST_SLUICE_LONG === "1";

/**
 * Adds a test to `npm run test:long` alone: what it proves of one more backend, engine or format,
 * `npm test` proves of another. Its file has to be one of those that the script names.
 *
 * @example
 * inLong?.("is cancelled there, too", async () => {});
 */
export const inLong = isLong ? it : undefined;
