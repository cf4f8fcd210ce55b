// AbortController and AbortSignal: how a fetch is given up.

export class AbortSignal {
  aborted = false;
  reason = undefined;
  onabort = null;
  #listeners = new Set();

  addEventListener(type, listener) {
    if (type === "abort") this.#listeners.add(listener);
  }

  removeEventListener(_type, listener) {
    this.#listeners.delete(listener);
  }

  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }

  static abort(reason) {
    const controller = new AbortController();
    controller.abort(reason);
    return controller.signal;
  }

  static timeout(ms) {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new DOMException("it took too long", "TimeoutError")), ms);
    return controller.signal;
  }

  static any(signals) {
    const controller = new AbortController();
    for (const signal of signals) {
      if (signal.aborted) controller.abort(signal.reason);
      else signal.addEventListener("abort", () => controller.abort(signal.reason));
    }
    return controller.signal;
  }

  /** For the controller only. */
  static fire(signal, reason) {
    if (signal.aborted) return;
    signal.aborted = true;
    signal.reason = reason;
    const event = { type: "abort", target: signal };
    signal.onabort?.(event);
    for (const listener of signal.#listeners) listener(event);
  }
}

export class AbortController {
  signal = new AbortSignal();

  abort(reason = new DOMException("it was given up", "AbortError")) {
    AbortSignal.fire(this.signal, reason);
  }
}
