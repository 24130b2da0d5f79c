import { type DeviceUse, deviceUse } from "../engines/devices.ts";
import type { Clock } from "../foundation/clock.ts";
import type { Spawn } from "../foundation/subprocess.ts";

/** How old figures of GPUs may be. */
export const devicePollMs = 10_000;

export interface DeviceFiguresOptions {
  /** Its `PATH` has `nvidia-smi`, if there is one. */
  environment: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  spawn?: Spawn;
}

/** The use of this machine's GPUs, read in the background: nobody waits for the driver. */
export class DeviceFigures {
  readonly #options: DeviceFiguresOptions;
  #latest: readonly DeviceUse[] = [];
  #cancel: (() => void) | undefined;
  #isClosed = false;

  constructor(options: DeviceFiguresOptions) {
    this.#options = options;
  }

  /** The figures of the last look; none where the driver did not answer. */
  get latest(): readonly DeviceUse[] {
    return this.#latest;
  }

  /** Looks now, and then every `devicePollMs`, unless the machine has no driver. */
  async begin(): Promise<void> {
    const { environment, clock, spawn } = this.#options;
    const found = await deviceUse(environment, spawn);
    if (found === undefined || this.#isClosed) return;
    this.#latest = found;
    this.#cancel = clock.schedule(devicePollMs, () => void this.begin());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
  }
}
