// A stand-in for the server, to test handlers natively, without wasm.
//
//     const fake = new Fake();
//     assert.equal(await fake.run(double, 21), 42);
//
// Every `run` is one more attempt of the same job: it gets the state that the one before saved. So a crash is tested by
// `failCheckpointsAfter`, and a second `run`.

import { Context, fromBytes, toBytes } from "./src/context.js";
import { Fatal } from "./src/errors.js";
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

  progress = [];
  log = [];
  saves = 0;
  children = [];

  constructor({ queue = "test", tags = {}, scope = null, config = {}, secrets = {} } = {}) {
    this.#job = { id: "job_test", queue, tags, scope, maxAttempts: 3, createdAtMs: 0, deadlineMs: null };
    this.#config = config;
    this.#secrets = secrets;
  }

  cancelAfter(looks, reason = "user") {
    this.#cancel = { looks, reason };
  }

  failCheckpointsAfter(checkpoints) {
    this.#checkpointsLeft = checkpoints;
  }

  resume() {
    this.#cancel = null;
    this.#checkpointsLeft = Infinity;
  }

  async run(handler, payload) {
    this.#attempt += 1;
    this.#spawned = [];
    const job = { ...this.#job, attempt: this.#attempt, payload: toBytes(payload, "payload") };
    const output = await perform(handler, new Context(job, this.#saved, this.#server()));
    this.children.push(...this.#spawned);
    try {
      return fromBytes(output);
    } catch {
      return output;
    }
  }

  state() {
    return this.#saved && fromBytes(this.#saved.state);
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
      },
      cancelled: () => {
        if (this.#cancel === null) return null;
        if (this.#cancel.looks > 0) {
          this.#cancel.looks -= 1;
          return null;
        }
        return { reason: this.#cancel.reason, timeLeftMs: 10_000 };
      },
      log: (level, message) => this.log.push([level, message]),
      spawn: (child) => this.children.length + this.#spawned.push(child) - 1,
      config: (name) => this.#config[name] ?? null,
      secret: (name) => {
        if (name in this.#secrets) return this.#secrets[name];
        throw new Fatal(`this plugin may not read the secret \`${name}\``);
      },
    };
  }
}
