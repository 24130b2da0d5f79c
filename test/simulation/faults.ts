import { type Random, randomInteger } from "../../src/foundation/random.ts";
import type { StorageCall, StorageVisit } from "../fakes/faulty-storage.ts";
import { drawStorageFault, fullDiskFault } from "../fakes/storage-faults.ts";
import type { Actor } from "./actor.ts";
import { journalOf } from "./observed-storage.ts";
import type { World } from "./world.ts";

/** Decides, by the seed alone, what goes wrong with storage calls and processes. */
export class Faults {
  /**
   * Times that a suspected row may have looked like the killer of its worker though it was not:
   * kills from outside, journals that could not be written, other workers that were asking it.
   */
  doubts = 0;
  isActive = false;
  /** Times that faults began. */
  chapter = 0;
  /** What a store changed after it said that it failed: another file may stand there by then. */
  readonly changedLate = new Set<string>();
  readonly #world: World;
  readonly #random: Random;
  #disruptions = 0;
  /** Processes that are paused, with the number of later leaders after which they go on. */
  readonly #sleepers = new Map<Actor, number>();

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  /** Faults may come from now on, as many as the scenario allows in one chapter. */
  begin(): void {
    this.isActive = true;
    this.chapter++;
    this.#disruptions = this.#world.scenario.disruptions;
  }

  /** A disruption may come at any time, not only when storage is called. */
  scheduleDisruption(): void {
    if (this.#disruptions === 0) return;
    this.#world.clock.schedule(this.#random.next() * 400, () => {
      const living = this.#world.actors.filter(
        ({ process, role }) => process.state === "running" && role !== "reader",
      );
      const actor = living[randomInteger(this.#random, living.length)];
      if (actor && this.isActive && this.#disruptions > 0) this.#disrupt(actor, "by the clock");
    });
  }

  /** What befalls a call. */
  visit(actor: Actor, call: StorageCall): StorageVisit {
    const { scenario } = this.#world;
    const random = this.#random;
    const isProbe = call.path.startsWith("_sluice/probe/");
    const isSlow = !isProbe || random.next() < 0.1;
    const visit: StorageVisit = isSlow
      ? {
          beforeMs: random.next() * scenario.storeMs,
          afterMs: (random.next() * scenario.storeMs) / 4,
        }
      : {};
    const journal = journalOf(call.path);
    if (journal && call.method === "appender") {
      visit.onEffect = () => this.#world.noteBegin(actor, journal);
    }
    if (!this.isActive || actor.role === "reader") return visit;
    const fault = this.#storageFault(call, isProbe);
    if (fault) {
      this.#note(actor, `${call.method} ${call.path}: ${JSON.stringify(fault)}`);
      visit.fault = fault;
      if (journal) this.#doubtJournal(actor);
      if (fault.kind === "late") this.changedLate.add(call.path);
    }
    const chance = scenario.disruptionRate * weightOf(call.path);
    if (this.#disruptions > 0 && random.next() < chance) this.#disruptAt(actor, call, visit);
    return visit;
  }

  #doubtJournal(actor: Actor): void {
    this.doubts++;
    actor.journalFaults++;
  }

  #note({ role, pid }: Actor, text: string): void {
    this.#world.note(`${role} ${pid} ${text}`);
  }

  #storageFault(call: StorageCall, isProbe: boolean) {
    const { fullDisk, storageFaultRate } = this.#world.scenario;
    const now = this.#world.clock.monotonic();
    if (fullDisk && now >= fullDisk.fromMs && now < fullDisk.toMs) {
      const fault = fullDiskFault(call, this.#random);
      if (fault) return fault;
    }
    const rate = isProbe ? storageFaultRate / 10 : storageFaultRate;
    return this.#random.next() < rate ? drawStorageFault(call, this.#random) : undefined;
  }

  #disruptAt(actor: Actor, { method, path }: StorageCall, visit: StorageVisit): void {
    const where = `at ${method} ${path}`;
    const chance = this.#random.next();
    if (chance < 0.35) return this.#disrupt(actor, `before ${where}`);
    if (method === "append" && chance < 0.7) {
      visit.fault = { kind: "tear", share: this.#random.next(), code: "STORE_FAILED" };
      this.#doubtJournal(actor);
    }
    const { onEffect } = visit;
    visit.onEffect = () => {
      onEffect?.();
      if (this.isActive && this.#disruptions > 0) this.#disrupt(actor, `after ${where}`);
    };
  }

  #disrupt(actor: Actor, where: string): void {
    this.#disruptions--;
    const chance = this.#random.next();
    if (chance < 0.15) {
      for (const each of this.#world.actors) {
        if (each.role !== "reader") this.#world.kill(each, `with all others, ${where}`);
      }
    } else if (this.#world.scenario.hasZombies && chance < 0.55) {
      this.#pause(actor, where);
    } else {
      this.#world.kill(actor, where);
    }
  }

  #pause(actor: Actor, where: string): void {
    this.#note(actor, `is paused ${where}`);
    actor.process.pause();
    actor.pausedAtTurn = this.#world.directory.turns;
    const isLost = actor.role !== "worker" || this.#random.next() < 0.7;
    if (isLost && actor.lose) {
      actor.lose();
      this.doubts++;
    }
    // A worker that hangs and is not given up hangs its run: it has to go on some time.
    const chance = isLost ? this.#random.next() : 0;
    if (chance > 0.6) return;
    if (chance > 0.2) {
      this.#sleepers.set(actor, 1 + randomInteger(this.#random, 3));
      return;
    }
    this.#world.clock.schedule(this.#random.next() * 20_000, () => this.resume(actor));
  }

  /** A process begins that may lead the run: some that sleep wake up while it does. */
  noteLeader(): void {
    for (const [actor, leaders] of this.#sleepers) {
      this.#sleepers.set(actor, leaders - 1);
      if (leaders > 1) continue;
      this.#sleepers.delete(actor);
      this.#world.clock.schedule(this.#random.next() * 3000, () => this.resume(actor));
    }
  }

  /** Lets a paused process go on, wherever it was paused, and whatever others did since. */
  resume(actor: Actor): void {
    if (actor.process.state !== "paused") return;
    this.#note(actor, "is resumed");
    actor.process.resume();
  }
}

/** Kills come most where they hurt most. */
function weightOf(path: string): number {
  if (path.startsWith("_sluice/probe/")) return 0.01;
  if (/^_sluice\/(r\d+\/)?commits\//.test(path)) return 10;
  if (/^(part-|_dead-letters|_manifest|_SUCCESS)/.test(path)) return 10;
  if (/^_sluice\/(r\d+\/)?(workers|coordinators)/.test(path)) return 0.5;
  return 2;
}
