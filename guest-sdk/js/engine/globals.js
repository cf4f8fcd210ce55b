// The globals that one expects and the engine lacks. Imported before anything else in a component.

import { console } from "./console.js";
import { crypto } from "./crypto.js";
import { soon, startTimer, stopTimer } from "./loop.js";
import { LoopPromise } from "./promise.js";
import { AbortController, AbortSignal } from "./abort.js";
import { TextDecoder, TextEncoder } from "./text.js";
import { URL, URLSearchParams } from "./url.js";

let started = 0;
let random = null;

/** xorshift128, seeded on first use: the engine's own generator is part of the snapshot, and would give every instance the
 * same numbers. */
function nextRandom() {
  random ??= crypto.getRandomValues(new Uint32Array(4));
  let t = random[3];
  const s = random[0];
  random.copyWithin(1, 0, 3);
  t ^= t << 11;
  t ^= t >>> 8;
  random[0] = t ^ s ^ (s >>> 19);
  return (random[0] * 0x20_0000 + (random[1] >>> 11)) / 2 ** 53;
}

/** Called at the start of each job. */
export function refresh() {
  random = null;
  started = Date.now();
}

Math.random = nextRandom;

Object.assign(globalThis, {
  AbortController,
  AbortSignal,
  Promise: LoopPromise,
  TextDecoder,
  TextEncoder,
  URL,
  URLSearchParams,
  clearInterval: stopTimer,
  clearTimeout: stopTimer,
  console,
  crypto,
  fetch: async () => {
    throw new TypeError("fetch: this plugin was built without HTTP. Put http = true under [build] in windlass.toml");
  },
  performance: {
    now: () => Date.now() - started,
    get timeOrigin() {
      return started;
    },
  },
  queueMicrotask: soon,
  setInterval: (callback, delay, ...args) => startTimer(() => callback(...args), delay, Number(delay) || 0),
  setTimeout: (callback, delay, ...args) => startTimer(() => callback(...args), delay),
  structuredClone: (value) => JSON.parse(JSON.stringify(value)),
});
