// The children of a job, which it reads after it has waited for them: page by page, never all at once.

import { fromBytes } from "./bytes.js";
import { Fatal } from "./errors.js";

export class ChildJob {
  #result;
  #server;

  constructor({ ordinal, id, queue, state, error, result, resultBytes }, server) {
    this.ordinal = ordinal;
    this.id = id;
    this.queue = queue;
    this.state = state;
    this.error = error;
    this.resultBytes = resultBytes;
    this.#result = result;
    this.#server = server;
  }

  result() {
    const bytes = this.resultRaw();
    try {
      return bytes === null ? null : fromBytes(bytes);
    } catch (error) {
      throw new Fatal(`the result of child ${this.ordinal} is no JSON: ${error.message}`);
    }
  }

  resultRaw() {
    if (this.state !== "completed") {
      const why = this.error ? `: ${this.error}` : "";
      throw new Error(`child ${this.ordinal} has no result, it is ${this.state}${why}`);
    }
    if (this.#result === null && this.resultBytes > 0) return this.#server.childResult(this.ordinal);
    return this.#result;
  }
}

/** All children, in the order they were spawned. At most one page of them is in memory. */
export function* readChildren(server) {
  for (let start = 0; start !== null; ) {
    const { children, next } = server.children(start);
    for (const child of children) yield new ChildJob(child, server);
    start = next;
  }
}
