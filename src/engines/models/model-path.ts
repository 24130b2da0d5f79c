/** True for a model's name that is a file of this machine. */
export function isModelPath(name: string): boolean {
  const isAddress = /^[A-Za-z][A-Za-z0-9+.-]+:/.test(name);
  return /^(\.{0,2}\/|~\/)/.test(name) || (name.endsWith(".gguf") && !isAddress);
}
