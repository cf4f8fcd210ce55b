// The component side: the export that runs a handler, and a server that calls the imports.

import { cancelled } from "windlass:job/cancel@0.1.0";
import { save } from "windlass:job/checkpoint@0.1.0";
import { joined, read, result, wait } from "windlass:job/children@0.1.0";
import { get as getConfig } from "windlass:job/config@0.1.0";
import { write } from "windlass:job/log@0.1.0";
import { report } from "windlass:job/progress@0.1.0";
import { get as getRecord, mark, put } from "windlass:job/records@0.1.0";
import { get as getSecret } from "windlass:job/secrets@0.1.0";
import { start } from "windlass:job/spawn@0.1.0";

import { Context } from "../src/context.js";
import { Cancelled, Fatal, RetryAfter, Waiting } from "../src/errors.js";
import { find, perform, registered } from "../src/handlers.js";
import { check, ownFrames } from "./checks.js";
import { refresh } from "./globals.js";
import { reset, turn } from "./loop.js";
import { said } from "./said.js";

const MOST_DETAIL = 16_000;
/** How many children to ask for at once; the server returns no more. */
const PAGE = 100;

export const run = {
  run(job) {
    refresh();
    reset();
    const { checkpoint, ...rest } = job;
    const ours = { ...rest, round: job.round ?? null, payload: new Uint8Array(job.payload), tags: Object.fromEntries(job.tags) };
    const saved = checkpoint && { schema: checkpoint.schema, state: new Uint8Array(checkpoint.state) };
    let outcome = null;
    try {
      const ctx = new Context(ours, saved ?? null, server);
      perform(find(ours.queue), ctx).then(
        (result) => (outcome = { result }),
        (error) => (outcome = { error }),
      );
      turn(() => outcome !== null);
    } catch (error) {
      outcome = { error };
    }
    // The server knows that the job waits, and ignores its result.
    if (outcome.error instanceof Waiting) return new Uint8Array();
    if ("error" in outcome) throw failure(outcome.error);
    return outcome.result;
  },
};

/** Called after the plugin's own modules: when it is built, and by `windlass dev` when it is loaded. */
export function ready() {
  check(registered);
}

export function failure(error) {
  let retry = { tag: "backoff" };
  if (error instanceof Fatal) retry = { tag: "never" };
  if (error instanceof RetryAfter) retry = { tag: "after-ms", val: error.delayMs };
  if (!(error instanceof Error)) return { message: text(`thrown: ${error}`), detail: null, retry };
  const plain = [Fatal, RetryAfter, Cancelled, Error].includes(error.constructor);
  const message = plain && error.message ? error.message : String(error);
  // The server knows that it asked to stop, and why; to it that is no failure.
  const detail = error instanceof Cancelled ? null : text(trace(error)).slice(0, MOST_DETAIL);
  return { message: text(message), detail, retry };
}

/** The error with its stack and its causes. */
function trace(error) {
  let told = `${error}${stack(error)}`;
  let cause = error.cause;
  for (let depth = 0; cause !== undefined && depth < 8; depth++) {
    told += `\ncaused by: ${cause}${stack(cause)}`;
    cause = cause?.cause;
  }
  return told;
}

function stack(error) {
  return ownFrames(error, globalThis.windlassLines, globalThis.windlassFrame);
}

const server = {
  progress({ message, phase, level = "info", detail, percent, current, total, unit, weight }) {
    let amount = null;
    if (percent !== undefined && percent !== null) amount = { tag: "percent", val: Number(percent) };
    else if (current !== undefined && current !== null) {
      const counted = { current: count(current), total: count(total), unit: text(unit), weight: weight ?? null };
      amount = { tag: "count", val: counted };
    }
    report({ message: text(message), phase: text(phase), level, detail: text(detail), amount });
  },

  checkpoint(schema, state) {
    try {
      save(schema, state);
    } catch (error) {
      const refusal = said(error);
      if (refusal?.tag === "too-large") throw new Fatal(`the state has ${state.length} bytes, and a checkpoint may have ${refusal.val}`);
      throw new Error(`the checkpoint was not saved: ${refusal?.val ?? refusal}`);
    }
  },

  cancelled() {
    return cancelled() ?? null;
  },

  log(level, message) {
    write(level, text(message));
  },

  spawn(child) {
    const tags = Object.entries(child.tags).map(([name, value]) => [text(name), text(value)]);
    try {
      return start({
        ...child,
        queue: text(child.queue),
        uniqueKey: text(child.uniqueKey),
        scope: text(child.scope),
        maxAttempts: count(child.maxAttempts),
        tags,
      });
    } catch (error) {
      const refusal = said(error);
      if (refusal?.tag === "too-many") throw new Fatal(`more than ${refusal.val} children wait for a checkpoint; save one in between`);
      if (refusal?.tag === "too-large") {
        throw new Fatal(`the children that wait for a checkpoint have more than ${refusal.val} bytes; save one in between`);
      }
      throw new Fatal(String(refusal?.val ?? refusal));
    }
  },

  joined() {
    const counts = joined() ?? null;
    return counts && { total: Number(counts.total), completed: Number(counts.completed), dead: Number(counts.dead), cancelled: Number(counts.cancelled) };
  },

  children(start) {
    const page = answered(() => read(start, PAGE));
    const children = page.children.map(({ result, resultBytes, error, ...child }) => ({
      ...child,
      error: error ?? null,
      result: bytes(result),
      resultBytes: Number(resultBytes),
    }));
    return { children, next: page.next ?? null };
  },

  childResult(ordinal) {
    return bytes(answered(() => result(ordinal)));
  },

  wait(onFailure, saved) {
    try {
      wait(onFailure, saved);
    } catch (error) {
      const refusal = said(error);
      if (refusal?.tag === "too-large") {
        throw new Fatal(`the state has ${saved.state.length} bytes, and a checkpoint may have ${refusal.val}`);
      }
      throw new Fatal(String(refusal?.val ?? refusal));
    }
  },

  putRecord(key, value) {
    noted(() => put(text(key), value));
  },

  getRecord(queue, key) {
    const found = noted(() => getRecord(text(queue), text(key))) ?? null;
    return found && { value: new Uint8Array(found.value), mark: found.mark ?? null };
  },

  mark(queue, key, word) {
    noted(() => mark(text(queue), text(key), text(word)));
  },

  config(name) {
    return getConfig(text(name)) ?? null;
  },

  secret(name) {
    try {
      return getSecret(text(name));
    } catch (error) {
      const refusal = said(error);
      throw new Fatal(String(refusal?.val ?? refusal));
    }
  },
};

/** What a read of the children gives, or why it did not. */
function answered(ask) {
  try {
    return ask();
  } catch (error) {
    const refusal = said(error);
    if (refusal?.tag === "invalid") throw new Fatal(refusal.val);
    throw new Error(`the children were not read: ${refusal?.val ?? refusal}`);
  }
}

/** The same for records. */
function noted(ask) {
  try {
    return ask();
  } catch (error) {
    const refusal = said(error);
    if (refusal?.tag === "too-many") throw new Fatal(`more than ${refusal.val} records wait for a checkpoint; save one in between`);
    if (refusal?.tag === "too-large") {
      throw new Fatal(`the record has more than ${refusal.val} bytes, alone or with those that wait for a checkpoint`);
    }
    if (refusal?.tag === "unavailable") throw new Error(`the record was not read: ${refusal.val}`);
    throw new Fatal(String(refusal?.val ?? refusal));
  }
}

function bytes(list) {
  return list === undefined || list === null ? null : new Uint8Array(list);
}

/** As the interface takes it: half a surrogate pair is no text. */
function text(value) {
  return value === undefined || value === null ? null : String(value).toWellFormed();
}

function count(value) {
  return value === undefined || value === null ? null : Math.max(0, Math.floor(Number(value)) || 0);
}
