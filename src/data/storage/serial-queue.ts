/**
 * Runs actions one after another. After a failure, every later action fails with the same error:
 * bytes after a gap are worse than no bytes.
 */
export class SerialQueue {
  #tail: Promise<unknown> = Promise.resolve();

  run<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(action);
    this.#tail = result;
    return result;
  }
}
