/**
 * `sluice/testing`: fakes for tests of programs that use Sluice, and the suites that its own
 * storages, formats and engines pass.
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
