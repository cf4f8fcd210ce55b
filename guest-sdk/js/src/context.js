// How a handler talks to the server. A context belongs to one attempt. `server` is the imports in a component, and a fake in a test.

import { fromBytes, toBytes } from "./bytes.js";
import { readChildren } from "./children.js";
import { millis } from "./duration.js";
import { Cancelled, Fatal, Waiting } from "./errors.js";

const LEVELS = ["debug", "info", "warn", "error"];
const ON_FAILURE = ["fail", "cancel", "continue"];
const PRIORITIES = ["critical", "high", "normal", "low"];

export class Context {
  #saved;
  #server;
  #lastSave = Date.now();

  constructor(job, saved, server) {
    this.job = job;
    this.schema = 1;
    this.#saved = saved;
    this.#server = server;
  }

  progress(current, total, message) {
    this.report({ current, total, message });
  }

  report(progress) {
    oneOf("level", progress.level ?? "info", LEVELS);
    this.#server.progress(progress);
  }

  checkpoint(state) {
    this.#server.checkpoint(this.schema, toBytes(state, "state"));
    this.#lastSave = Date.now();
  }

  checkpointEvery(period, state) {
    if (Date.now() - this.#lastSave < millis(period)) return false;
    this.checkpoint(state);
    return true;
  }

  state() {
    if (this.#saved === null) return null;
    const { schema, state } = this.#saved;
    if (schema !== this.schema) {
      throw new Error(`the saved state has schema ${schema}, and this handler reads ${this.schema}`);
    }
    try {
      return fromBytes(state);
    } catch (error) {
      throw new Error(`the saved state cannot be read: ${error.message}`);
    }
  }

  stateRaw() {
    return this.#saved;
  }

  cancelled() {
    return this.#server.cancelled();
  }

  checkCancelled() {
    const cancel = this.cancelled();
    if (cancel !== null) throw new Cancelled(cancel.reason);
  }

  spawn(queue, payload, options = {}) {
    if (options.priority !== undefined) oneOf("priority", options.priority, PRIORITIES);
    return this.#server.spawn({
      queue,
      payload: toBytes(payload, "payload of the child"),
      priority: options.priority ?? null,
      delayMs: options.delay === undefined ? null : millis(options.delay),
      maxAttempts: options.maxAttempts ?? null,
      uniqueKey: options.uniqueKey ?? null,
      uniquePeriodMs: options.uniquePeriod === undefined ? null : millis(options.uniquePeriod),
      tags: { ...options.tags },
      scope: options.scope ?? null,
    });
  }

  waitForChildren(state, { onFailure = "fail" } = {}) {
    const saved = state === undefined ? null : { schema: this.schema, state: toBytes(state, "state") };
    this.#server.wait(oneOf("onFailure", onFailure, ON_FAILURE), saved);
    throw new Waiting();
  }

  joined() {
    return this.#server.joined();
  }

  children() {
    return readChildren(this.#server);
  }

  putRecord(key, value) {
    this.#server.putRecord(key, toBytes(value, "record"));
  }

  getRecord(queue, key) {
    const found = this.getRecordRaw(queue, key);
    if (found === null) return null;
    try {
      return { value: fromBytes(found.value), mark: found.mark };
    } catch (error) {
      throw new Fatal(`the record \`${key}\` of \`${queue}\` is no JSON: ${error.message}`);
    }
  }

  getRecordRaw(queue, key) {
    return this.#server.getRecord(queue, key);
  }

  mark(queue, key, mark) {
    this.#server.mark(queue, key, mark ?? null);
  }

  log(level, message) {
    this.#server.log(oneOf("level", level, LEVELS), String(message));
  }

  config(name) {
    return this.#server.config(name);
  }

  secret(name) {
    return this.#server.secret(name);
  }
}

function oneOf(name, value, choices) {
  if (!choices.includes(value)) throw new RangeError(`${name} is \`${value}\`; it can be ${choices.join(", ")}`);
  return value;
}
