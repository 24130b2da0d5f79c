/**
 * `sluice/testing`: a stand-in for an OpenAI-compatible server, for tests of programs that use
 * Sluice.
 */
export {
  type FakeServer,
  type FakeServerOptions,
  type ReceivedRequest,
  type ServerBehaviour,
  startFakeServer,
} from "./fake-server.ts";
export { behaviourOf, type FaultScript, type ScriptedFault } from "./fault-script.ts";
