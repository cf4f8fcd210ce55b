// Promises whose reactions run in our own loop: the engine's run only after `run` has returned, which is too late. The bundler
// turns async functions into code that takes `Promise` from the global scope, so these serve `async` and `await`, too.

import { soon } from "./loop.js";

const PENDING = 0;
const FULFILLED = 1;
const REJECTED = 2;

export class LoopPromise {
  #state = PENDING;
  #value;
  #reactions = [];

  constructor(executor) {
    if (typeof executor !== "function") throw new TypeError("a Promise takes a function");
    const { resolve, reject } = this.#resolvers();
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  then(onFulfilled, onRejected) {
    return new LoopPromise((resolve, reject) => {
      const react = () => {
        const handle = this.#state === FULFILLED ? onFulfilled : onRejected;
        if (typeof handle !== "function") {
          (this.#state === FULFILLED ? resolve : reject)(this.#value);
          return;
        }
        try {
          resolve(handle(this.#value));
        } catch (error) {
          reject(error);
        }
      };
      if (this.#state === PENDING) this.#reactions.push(react);
      else soon(react);
    });
  }

  catch(onRejected) {
    return this.then(undefined, onRejected);
  }

  finally(onFinally) {
    if (typeof onFinally !== "function") return this.then(onFinally, onFinally);
    return this.then(
      (value) => LoopPromise.resolve(onFinally()).then(() => value),
      (error) =>
        LoopPromise.resolve(onFinally()).then(() => {
          throw error;
        }),
    );
  }

  get [Symbol.toStringTag]() {
    return "Promise";
  }

  /** The two functions that settle it, of which only the first call counts. */
  #resolvers() {
    let called = false;
    const once = (settle) => (value) => {
      if (called) return;
      called = true;
      settle(value);
    };
    return {
      resolve: once((value) => this.#resolve(value)),
      reject: once((error) => this.#settle(REJECTED, error)),
    };
  }

  #resolve(value) {
    if (value === this) {
      this.#settle(REJECTED, new TypeError("a promise cannot wait for itself"));
      return;
    }
    let then;
    try {
      then = value !== null && (typeof value === "object" || typeof value === "function") ? value.then : undefined;
    } catch (error) {
      this.#settle(REJECTED, error);
      return;
    }
    if (typeof then !== "function") {
      this.#settle(FULFILLED, value);
      return;
    }
    soon(() => {
      const { resolve, reject } = this.#resolvers();
      try {
        then.call(value, resolve, reject);
      } catch (error) {
        reject(error);
      }
    });
  }

  #settle(state, value) {
    this.#state = state;
    this.#value = value;
    for (const react of this.#reactions) soon(react);
    this.#reactions = [];
  }

  static resolve(value) {
    return value instanceof LoopPromise ? value : new LoopPromise((resolve) => resolve(value));
  }

  static reject(error) {
    return new LoopPromise((_, reject) => reject(error));
  }

  static withResolvers() {
    const made = {};
    made.promise = new LoopPromise((resolve, reject) => Object.assign(made, { resolve, reject }));
    return made;
  }

  static try(run, ...args) {
    return new LoopPromise((resolve) => resolve(run(...args)));
  }

  static all(values) {
    return collect(values, (each, keep, _, reject) => each.then(keep, reject));
  }

  static allSettled(values) {
    return collect(values, (each, keep) =>
      each.then(
        (value) => keep({ status: "fulfilled", value }),
        (reason) => keep({ status: "rejected", reason }),
      ),
    );
  }

  static any(values) {
    return collect(
      values,
      (each, keep, resolve) => each.then(resolve, keep),
      (errors, _, reject) => reject(new AggregateError(errors, "all promises were rejected")),
    );
  }

  static race(values) {
    return new LoopPromise((resolve, reject) => {
      for (const value of values) LoopPromise.resolve(value).then(resolve, reject);
    });
  }
}

/** Waits for every one to be kept; `finish` settles the whole with what was kept, in order. */
function collect(values, watch, finish = (kept, resolve) => resolve(kept)) {
  return new LoopPromise((resolve, reject) => {
    const kept = [];
    let count = 0;
    let left = 1;
    const done = () => {
      left -= 1;
      if (left === 0) finish(kept, resolve, reject);
    };
    for (const value of values) {
      const place = count;
      count += 1;
      left += 1;
      const keep = (found) => {
        kept[place] = found;
        done();
      };
      watch(LoopPromise.resolve(value), keep, resolve, reject);
    }
    done();
  });
}
