export { engineContext, runDependencies } from "../api/run-dependencies.ts";
