/**
 * `sluice/testing`: what Sluice tests its own parts with, for those who write a storage, a format
 * or an engine of their own, and for tests of programs that use Sluice.
 */
export {
  conformanceRequest,
  type EngineUnderTest,
  engineConformance,
  type MakeEngine,
} from "./engine-conformance.ts";
export {
  type FakeServer,
  type FakeServerOptions,
  type ReceivedRequest,
  type ServerBehaviour,
  startFakeServer,
} from "./fake-server.ts";
export { behaviourOf, type FaultScript, type ScriptedFault } from "./fault-script.ts";
export {
  faultyStorage,
  type StorageCall,
  type StorageFault,
  type StorageVisit,
  type VisitStorage,
} from "./faulty-storage.ts";
export {
  type FormatSample,
  type FormatUnderTest,
  formatConformance,
} from "./format-conformance.ts";
export { SimulatedProcess } from "./simulated-process.ts";
export { storageConformance, type TestFramework } from "./storage-conformance.ts";
export { drawStorageFault, fullDiskFault } from "./storage-faults.ts";
export { type VirtualClock, type VirtualClockOptions, virtualClock } from "./virtual-clock.ts";
