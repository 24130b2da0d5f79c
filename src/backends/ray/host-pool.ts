import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { Timers } from "../../foundation/timers.ts";
import type { BackendRun } from "../../run/dispatch/backend.ts";
import type { DrainNotice, RefusedStart, WorkerHandle } from "../../run/dispatch/dispatch.ts";
import type { ToWorker } from "../../run/worker/protocol.ts";
import type { Host, HostResources, HostStart, RayBridge, RayNode } from "./bridge.ts";
import { bookedBy, fitNodes, fullestNode, shownBooking } from "./placement.ts";

export interface HostPoolOptions {
  bridge: Pick<RayBridge, "nodes" | "onNodes" | "start">;
  run: Pick<BackendRun, "job" | "context" | "onEvent">;
  /** What each worker runs, and with what. */
  worker: Pick<HostStart, "arguments" | "environment" | "directory">;
  /** Called once with what ends the run. */
  onFault(error: SluiceError): void;
}

/** A place in the pool that waits for room on the cluster. */
interface Waiting {
  host: Host;
  /** The node that it should be on. */
  near: string | undefined;
  sinceMs: number;
  /** Gives up the host and asks for another one. */
  renew(): void;
}

interface Placed {
  node: string;
  drain(notice: DrainNotice): void;
}

/** After this wait, a person is told that there is no room. */
const toldRoomMs = 10_000;
/** A node that lost a host is avoided until Ray itself knows for sure whether it is alive. */
const suspectMs = 70_000;
/** A host that waits for longer is asked for anew: its node may have gone just then. */
const renewMs = 120_000;
/** Hosts that wait for room at once: enough for an autoscaler to see the demand. */
export const maxWaitingHosts = 64;
const tickMs = 1000;

/** Starts the workers of a run on the nodes of a cluster, and knows which nodes to avoid. */
export class HostPool {
  readonly #options: HostPoolOptions;
  readonly #timers: Timers;
  /** The same for all workers, also for those on nodes that join later. */
  readonly #booked: HostResources;
  readonly #waiting = new Set<Waiting>();
  readonly #placed = new Set<Placed>();
  readonly #suspects = new Map<string, number>();
  /** Nodes that cannot run workers. */
  readonly #unfit = new Set<string>();
  /** When there were last as many workers as the job asks for at least. */
  #enoughMs: number;
  #hasToldRoom = false;
  #hasFault = false;

  constructor(options: HostPoolOptions) {
    this.#options = options;
    const { clock } = options.run.context;
    this.#timers = new Timers(clock);
    this.#booked = bookedBy(options.run.job, options.bridge.nodes);
    this.#enoughMs = clock.monotonic();
    options.bridge.onNodes((nodes) => this.#watchNodes(nodes));
    this.#tick();
  }

  /**
   * Waits for room on the cluster and starts a worker there.
   *
   * @param signal aborted once the worker is not wanted any more.
   */
  async start(signal: AbortSignal): Promise<WorkerHandle | RefusedStart> {
    if (signal.aborted) return { refused: "it is not needed any more" };
    if (this.#waiting.size >= maxWaitingHosts) {
      return { refused: `${maxWaitingHosts} others wait for room`, retryAfterMs: tickMs };
    }
    const waiting = this.#wait();
    const onAbort = () => waiting.host.kill();
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      for (;;) {
        const { host } = waiting;
        const started = await host.started;
        if (signal.aborted) return { refused: "it is not needed any more" };
        // Another host was asked for, and this one was ended, even if it has just started.
        if (host !== waiting.host) continue;
        if (!("refused" in started)) return this.#handleOf(host, started.node);
        const { refused, isFinal = false, node } = started;
        if (isFinal || (node !== undefined && this.#isLastFit(node))) {
          this.#fail(new SluiceError("RAY_SETUP_FAILED", refused));
        }
        return { refused, retryAfterMs: tickMs };
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#waiting.delete(waiting);
    }
  }

  close(): void {
    this.#timers.clear();
    this.#options.bridge.onNodes(() => {});
    for (const { host } of this.#waiting) host.kill();
  }

  #wait(): Waiting {
    const { clock } = this.#options.run.context;
    const waiting: Waiting = {
      ...this.#ask(),
      sinceMs: clock.monotonic(),
      renew: () => {
        const { host } = waiting;
        waiting.near = undefined;
        Object.assign(waiting, this.#ask());
        host.kill();
      },
    };
    this.#waiting.add(waiting);
    return waiting;
  }

  #ask(): Pick<Waiting, "host" | "near"> {
    const { bridge, worker, run } = this.#options;
    const { strategy = "SPREAD", labels = {} } = run.job.ray ?? {};
    const resources = this.#booked;
    const avoid = [...this.#suspects.keys(), ...this.#unfit];
    const placed = [...this.#placed].map(({ node }) => node);
    const taken = [...placed, ...[...this.#waiting].map((each) => each.near)];
    const takenOn = (id: string) => taken.filter((node) => node === id).length;
    const near =
      strategy === "PACK"
        ? fullestNode(fitNodes(run.job, bridge.nodes), resources, takenOn, avoid)
        : undefined;
    const place = { resources, strategy, avoid, labels, ...(near !== undefined && { near }) };
    return { host: bridge.start({ ...place, ...worker }), near };
  }

  #handleOf(host: Host, node: string): WorkerHandle {
    const drained = Promise.withResolvers<DrainNotice>();
    const lost = Promise.withResolvers<string>();
    const placed: Placed = { node, drain: drained.resolve };
    this.#placed.add(placed);
    let isReady = false;
    const ended = host.ended.then(({ reason, isLost, suspect }) => {
      this.#placed.delete(placed);
      if (suspect !== undefined) this.#suspect(suspect);
      if (isLost) lost.resolve(reason);
      return reason;
    });
    this.#watchNodes(this.#options.bridge.nodes);
    const { channel } = host;
    return {
      channel: {
        ...channel,
        onMessage: (listener) =>
          channel.onMessage((message) => {
            isReady ||= message.type === "worker-ready";
            listener(message);
          }),
        send(message: ToWorker) {
          // Nothing is lost with a worker that has not begun, and it may load for minutes.
          if (message.type === "worker-stop" && !isReady) host.kill();
          else channel.send(message);
        },
      },
      kill: () => host.kill(),
      ...{ ended, drained: drained.promise, lost: lost.promise },
    };
  }

  #suspect(node: string): void {
    const { clock } = this.#options.run.context;
    this.#suspects.set(node, clock.monotonic() + suspectMs);
    for (const waiting of this.#waiting) waiting.renew();
  }

  /** Avoids a node from now on. A node that joins later may be fit, but nobody has promised one. */
  #isLastFit(node: string): boolean {
    const { run, bridge } = this.#options;
    this.#unfit.add(node);
    const isFit = ({ id }: RayNode) => !this.#unfit.has(id);
    return this.#placed.size === 0 && !fitNodes(run.job, bridge.nodes).some(isFit);
  }

  #watchNodes(nodes: readonly RayNode[]): void {
    const { clock } = this.#options.run.context;
    for (const { id, drainsAt, address } of nodes) {
      if (drainsAt === null) continue;
      const leftMs = drainsAt === 0 ? Infinity : drainsAt - clock.now();
      // A worker that does not leave is ended after twice its time.
      const graceMs = Math.min(limits.stopGraceMs, Math.max(500, leftMs / 2 - 1000));
      const reason = `Ray takes node ${address} away`;
      for (const { node, drain } of this.#placed) if (node === id) drain({ reason, graceMs });
    }
  }

  #tick(): void {
    this.#timers.schedule(tickMs, () => {
      const nowMs = this.#options.run.context.clock.monotonic();
      for (const [node, untilMs] of this.#suspects) {
        if (nowMs >= untilMs) this.#suspects.delete(node);
      }
      for (const waiting of this.#waiting) {
        if (nowMs - waiting.sinceMs < renewMs) continue;
        waiting.sinceMs = nowMs;
        waiting.renew();
      }
      this.#watchRoom(nowMs);
      this.#tick();
    });
  }

  #watchRoom(nowMs: number): void {
    const { run } = this.#options;
    const { min = 1 } = run.job.workers;
    const { maxRoomWaitMs = limits.maxRoomWaitMs } = run.job.ray ?? {};
    const booking = shownBooking(this.#booked);
    if (this.#waiting.size === 0 || this.#placed.size >= min) this.#enoughMs = nowMs;
    const oldestMs = Math.min(...[...this.#waiting].map(({ sinceMs }) => sinceMs));
    if (nowMs - oldestMs >= toldRoomMs && !this.#hasToldRoom) {
      this.#hasToldRoom = true;
      const count = this.#waiting.size;
      const message =
        `${count === 1 ? "1 worker waits" : `${count} workers wait`} for room on the cluster, ` +
        `each for ${booking}; ${this.#placed.size} are placed`;
      run.onEvent({ type: "notice", message });
    }
    if (nowMs - this.#enoughMs < maxRoomWaitMs) return;
    const detail = `${this.#placed.size} of at least ${min} workers found room, each for ${booking}`;
    this.#fail(new SluiceError("CLUSTER_FULL", `${detail}, within ${maxRoomWaitMs / 1000} s`));
  }

  #fail(error: SluiceError): void {
    if (this.#hasFault) return;
    this.#hasFault = true;
    this.#options.onFault(error);
  }
}
