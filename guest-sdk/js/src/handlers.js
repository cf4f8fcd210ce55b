// From a function to a handler: which one serves which queue, and what lies between its values and bytes.

import { fromBytes, toBytes } from "./bytes.js";
import { Fatal } from "./errors.js";

/** The queue name that takes what no other handler does. */
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
    const output = await run(ctx, ctx.job.payload);
    if (output instanceof Uint8Array) return output;
    throw new Fatal("a raw handler gives bytes: a Uint8Array");
  }
  let payload;
  try {
    payload = fromBytes(ctx.job.payload);
  } catch (error) {
    // The same bytes will not parse next time either.
    throw new Fatal(`the payload is not what this handler takes: ${error.message}`);
  }
  return toBytes(await run(ctx, payload), "result");
}
