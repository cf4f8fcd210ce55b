// From a function to a handler: which one serves which queue, and how its values become bytes.

import { fromBytes, toBytes } from "./bytes.js";
import { Fatal } from "./errors.js";

/** The queue name of the handler for all queues without one of their own. */
const ANY = "*";
const RAW = Symbol("raw");

export const registered = new Map();

export function handler(queues, run) {
  if (typeof run !== "function") throw new TypeError('a handler is a function: handler("emails.send", (ctx, mail) => …)');
  for (const queue of [queues].flat()) {
    if (typeof queue !== "string") throw new TypeError('name the queues a handler serves, or "*" for all others');
    if (registered.has(queue)) throw new Error(`two handlers for the queue \`${queue}\``);
    registered.set(queue, run);
  }
  return run;
}

export function raw(run) {
  const marked = (ctx, bytes) => run(ctx, bytes);
  marked[RAW] = true;
  return marked;
}

/** Finds the handler of the job's queue. */
export function find(queue) {
  const found = registered.get(queue) ?? registered.get(ANY);
  if (found === undefined) throw new Fatal(`this plugin has no handler for the queue \`${queue}\``);
  return found;
}

/** Runs a handler: bytes in, in the context's job, and bytes out. */
export async function perform(run, ctx) {
  if (run[RAW]) {
    const result = await run(ctx, ctx.job.payload);
    if (result instanceof Uint8Array) return result;
    throw new Fatal("a raw handler must return bytes: a Uint8Array");
  }
  let payload;
  try {
    payload = fromBytes(ctx.job.payload);
  } catch (error) {
    // The same bytes would not parse in the next attempt either.
    throw new Fatal(`the payload is not what this handler takes: ${error.message}`);
  }
  return toBytes(await run(ctx, payload), "result");
}
