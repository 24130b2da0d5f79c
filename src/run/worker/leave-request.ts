import type { Storage } from "../../data/storage/storage.ts";
import { leavePath } from "../directory/layout.ts";
import { readJson, recordBytes } from "../directory/records.ts";

/** A request that one worker leaves its run; another one takes its place. */
export interface LeaveRequest {
  /** Time for its requests in flight. */
  graceMs: number;
}

/** Asks a worker to leave, wherever it runs. A later request takes the place of an earlier one. */
export function requestLeave(storage: Storage, worker: string, request: LeaveRequest) {
  return storage.replace(leavePath(worker), recordBytes(request));
}

/** The request for a worker; undefined if it may stay. */
export function leaveRequestOf(
  storage: Storage,
  worker: string,
): Promise<LeaveRequest | undefined> {
  return readJson<LeaveRequest>(storage, leavePath(worker));
}
