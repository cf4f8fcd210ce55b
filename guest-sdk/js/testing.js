// A stand-in for the server, to test handlers natively, without wasm.
//
//     const fake = new Fake();
//     assert.equal(await fake.run(double, 21), 42);
//
// Every `run` is another attempt of the same job and starts from the state that the previous one saved. To test a crash, call
// `failCheckpointsAfter` and `run` again.

import { fromBytes, toBytes } from "./src/bytes.js";
import { Context } from "./src/context.js";
import { Fatal, Waiting } from "./src/errors.js";
import { perform } from "./src/handlers.js";

export class Fake {
  #job;
  #config;
  #secrets;
  #attempt = 0;
  #saved = null;
  #spawned = [];
  #cancel = null;
  #checkpointsLeft = Infinity;
  #ended = new Map();
  #wait = null;
  #waiting = null;
  #joined = false;
  #records = new Map();
  #noted = [];

  progress = [];
  log = [];
  saves = 0;
  children = [];

  constructor({ queue = "test", tags = {}, scope = null, round = null, config = {}, secrets = {} } = {}) {
    this.#job = { id: "job_test", queue, tags, scope, round, maxAttempts: 3, createdAtMs: 0, deadlineMs: null };
    this.#config = config;
    this.#secrets = secrets;
  }

  cancelAfter(checks, reason = "user") {
    this.#cancel = { checks, reason };
  }

  failCheckpointsAfter(checkpoints) {
    this.#checkpointsLeft = checkpoints;
  }

  resume() {
    this.#cancel = null;
    this.#checkpointsLeft = Infinity;
  }

  childCompleted(ordinal, result) {
    this.#ended.set(ordinal, { result: toBytes(result, "result") });
  }

  childDied(ordinal, error) {
    this.#ended.set(ordinal, { error });
  }

  putRecord(queue, key, value) {
    this.#records.set(place(queue, key), { value: toBytes(value, "record"), mark: null });
  }

  getRecord(queue, key) {
    const found = this.#records.get(place(queue, key));
    return found === undefined ? null : { value: fromBytes(found.value), mark: found.mark };
  }

  #commitNotes() {
    for (const { at, value, mark } of this.#noted) {
      if (value !== undefined) this.#records.set(at, { value, mark: null });
      else if (this.#records.has(at)) this.#records.get(at).mark = mark;
    }
    this.#noted = [];
  }

  /** Decides, as the server would, whether a waiting job runs again. */
  #join() {
    if (this.#waiting === null) return;
    const open = this.children.findIndex((_, ordinal) => !this.#ended.has(ordinal));
    if (open >= 0) throw new Fatal(`child ${open} has not ended; say how with childCompleted or childDied`);
    if (this.#waiting === "fail" && this.#dead() > 0) throw new Fatal("a child failed");
    this.#waiting = null;
    this.#joined = true;
  }

  #dead() {
    return [...this.#ended.values()].filter(({ error }) => error !== undefined).length;
  }

  async run(handler, payload) {
    this.#join();
    this.#attempt += 1;
    this.#spawned = [];
    this.#noted = [];
    this.#wait = null;
    const job = { ...this.#job, attempt: this.#attempt, payload: toBytes(payload, "payload") };
    let result = null;
    try {
      result = await perform(handler, new Context(job, this.#saved, this.#server()));
    } catch (error) {
      if (!(error instanceof Waiting)) throw error;
    }
    this.children.push(...this.#spawned);
    this.#commitNotes();
    if (this.#wait !== null) {
      this.#waiting = this.#wait.onFailure;
      this.#saved = this.#wait.saved ?? this.#saved;
      throw new Waiting();
    }
    try {
      return fromBytes(result);
    } catch {
      return result;
    }
  }

  state() {
    return this.#saved && fromBytes(this.#saved.state);
  }

  #listed({ queue }, ordinal) {
    const end = this.#ended.get(ordinal);
    const state = end === undefined ? "open" : end.error === undefined ? "completed" : "dead";
    const resultBytes = end?.result?.length ?? 0;
    // As on the server, a large one is not on the page.
    const result = resultBytes <= 64 * 1024 ? (end?.result ?? null) : null;
    return { ordinal, id: `job_test_${ordinal}`, queue, state, error: end?.error ?? null, result, resultBytes };
  }

  /** One method per function that the interface imports. */
  #server() {
    return {
      progress: (progress) => this.progress.push(progress),
      checkpoint: (schema, state) => {
        if (this.#checkpointsLeft === 0) throw new Error("the checkpoint was not saved: the test said so");
        this.#checkpointsLeft -= 1;
        this.saves += 1;
        this.#saved = { schema, state };
        this.children.push(...this.#spawned);
        this.#spawned = [];
        this.#commitNotes();
      },
      cancelled: () => {
        if (this.#cancel === null) return null;
        if (this.#cancel.checks > 0) {
          this.#cancel.checks -= 1;
          return null;
        }
        return { reason: this.#cancel.reason, timeLeftMs: 10_000 };
      },
      log: (level, message) => this.log.push([level, message]),
      spawn: (child) => this.children.length + this.#spawned.push(child) - 1,
      joined: () => {
        if (!this.#joined) return null;
        const [total, dead] = [this.children.length, this.#dead()];
        return { total, completed: total - dead, dead, cancelled: 0 };
      },
      children: (start) => {
        // Two at a time, so that a test of three sees more than one page.
        const next = start + 2 < this.children.length ? start + 2 : null;
        return { children: this.children.slice(start, start + 2).map((child, n) => this.#listed(child, start + n)), next };
      },
      childResult: (ordinal) => this.#ended.get(ordinal)?.result ?? null,
      wait: (onFailure, saved) => (this.#wait = { onFailure, saved }),
      putRecord: (key, value) => {
        const size = new TextEncoder().encode(key).length;
        if (size < 1 || size > 1024 || value.length > 64 * 1024) {
          throw new Fatal("a key has 1 to 1024 bytes, and a value at most 64 KiB");
        }
        this.#noted.push({ at: place(this.#job.queue, key), value });
      },
      getRecord: (queue, key) => this.#records.get(place(queue, key)) ?? null,
      mark: (queue, key, mark) => this.#noted.push({ at: place(queue, key), mark }),
      config: (name) => this.#config[name] ?? null,
      secret: (name) => {
        if (name in this.#secrets) return this.#secrets[name];
        throw new Fatal(`this plugin may not read the secret \`${name}\``);
      },
    };
  }
}

function place(queue, key) {
  return JSON.stringify([queue, key]);
}
