// Write handlers for the Windlass job server in JavaScript and TypeScript.

/** A span of time: `"500ms"`, `"1s"`, `"5m"`, `"2h"`, `"1d"`, or milliseconds as a number. */
export type Duration = string | number;
export type Level = "debug" | "info" | "warn" | "error";
export type Reason = "user" | "timeout" | "shutdown" | "swap";

/** A job, as seen by one attempt. */
export interface Job {
  id: string;
  queue: string;
  /** What the producer sent, byte for byte. */
  payload: Uint8Array;
  /** Counted from 1. */
  attempt: number;
  /** How many attempts may fail. `attempt` can be higher: an attempt that the server handed back does not count. */
  maxAttempts: number;
  tags: Record<string, string>;
  /** What the job is about, as `type:id`. */
  scope: string | null;
  /** The round this job is in; null if its queue has no rounds. */
  round: number | null;
  /** When the job was enqueued, in milliseconds since the Unix epoch. */
  createdAtMs: number;
  /** When this attempt times out, in milliseconds since the Unix epoch. */
  deadlineMs: number | null;
}

/** A request to stop. */
export interface Cancel {
  reason: Reason;
  /** Milliseconds until the server ends the attempt by force. */
  timeLeftMs: number;
}

/** A progress event. */
export interface Progress {
  message?: string;
  /** The current phase of the work. */
  phase?: string;
  level?: Level;
  /** Further details. By convention, JSON. */
  detail?: string;
  /** A percentage, from 0 to 100; or a count: */
  percent?: number;
  current?: number;
  total?: number;
  /** What is counted: `rows`, `bytes`. */
  unit?: string;
  /** The weight of this phase among the job's phases. */
  weight?: number;
}

/** What a child may have besides queue and payload. Anything absent is decided by the settings of its queue. */
export interface ChildOptions {
  priority?: "critical" | "high" | "normal" | "low";
  /** How long it waits before it may start. */
  delay?: Duration;
  maxAttempts?: number;
  /** A key that only one job at a time may hold. If another job holds it, the child is not started. */
  uniqueKey?: string;
  /** The longest time for which the child may hold the key. */
  uniquePeriod?: Duration;
  tags?: Record<string, string>;
  scope?: string;
}

/** What happens to a waiting job when one of its children is dead or cancelled: it is dead too, its other children are cancelled, or it
 * runs again when all of them have ended, in whatever state. */
export type OnFailure = "fail" | "cancel" | "continue";

/** How many children a job has had across all attempts, by the state in which they ended. */
export interface ChildCounts {
  total: number;
  completed: number;
  dead: number;
  cancelled: number;
}

/** A job that this one has started. */
export class ChildJob {
  /** As returned by `spawn`. */
  readonly ordinal: number;
  readonly id: string;
  readonly queue: string;
  /** `open` if the job has not waited for it. */
  readonly state: "open" | "completed" | "dead" | "cancelled";
  /** Its last error, if there was one. */
  readonly error: string | null;
  /** The size of its result in bytes. */
  readonly resultBytes: number;
  /** The child's result, read as JSON; null if it has none. For a child that did not complete, throws an error that says why. A large
   * result is read from the server at each call. */
  result<T>(): T;
  /** The bytes of the child's result, if it has one. */
  resultRaw(): Uint8Array | null;
}

/** A record: what a job has stored under a key of its queue, and the mark on it. */
export interface Recorded<T> {
  value: T;
  mark: string | null;
}

/** How a handler talks to the server. It belongs to one attempt. */
export class Context {
  /** The job this attempt is for. */
  readonly job: Job;
  /** The version of your state format, which is 1 unless set. Raise it when you change what you save. */
  schema: number;
  /** Reports how far the work has come: `current` of `total`. Never fails, never waits for the disk. */
  progress(current: number, total?: number, message?: string): void;
  /** Reports a progress event in its full form. */
  report(progress: Progress): void;
  /** Saves state for the next attempt: as JSON, or unchanged if it is bytes. When it returns, the state is on disk, together with
   * the children spawned before. That takes about half a millisecond. */
  checkpoint(state: unknown): void;
  /** Saves state if the last save was at least `period` ago, and returns whether it did. For loops whose steps are short. */
  checkpointEvery(period: Duration, state: unknown): boolean;
  /** The state that an earlier attempt saved, or null if there is none. State of another schema is an error. */
  state<T>(): T | null;
  /** The bytes of the saved state and their schema, to migrate them by hand. */
  stateRaw(): { schema: number; state: Uint8Array } | null;
  /** The server's request to stop, if there is one. The call is cheap: make it between any two steps. */
  cancelled(): Cancel | null;
  /** Throws Cancelled if the server has asked the attempt to stop. */
  checkCancelled(): void;
  /** Starts another job, atomically with the next checkpoint or the result; if the attempt fails before then, the job is never started.
   * Returns its ordinal among the children of this job. */
  spawn(queue: string, payload: unknown, options?: ChildOptions): number;
  /** Ends this attempt, by throwing Waiting: the job runs again, from this state, when all of its children have ended. Without a state, the
   * last checkpoint remains. Children, state and wait are committed atomically. A waiting job occupies neither memory nor a slot. */
  waitForChildren(state?: unknown, options?: { onFailure?: OnFailure }): never;
  /** How the children ended, or null if this attempt does not follow a wait for them. */
  joined(): ChildCounts | null;
  /** The children, in the order they were spawned. They are read from the server a page at a time. */
  children(): IterableIterator<ChildJob>;
  /** Stores a value under a key of the job's own queue, for other jobs to read: as JSON, or unchanged if it is bytes. It is committed with
   * the next checkpoint or the result, and discarded if the attempt fails before then. A value has at most 64 KiB. An existing record with
   * this key is replaced. */
  putRecord(key: string, value: unknown): void;
  /** The committed record under a key of a queue, or null. The plugin must serve the queue, or a gate must connect it to the job's own
   * queue. */
  getRecord<T>(queue: string, key: string): Recorded<T> | null;
  /** The same, with the value as bytes. */
  getRecordRaw(queue: string, key: string): Recorded<Uint8Array> | null;
  /** Sets the mark on a record, or removes it if `mark` is null. It is committed in the same way as a record. Marked records can be listed,
   * and their jobs rebuilt by a sweep. */
  mark(queue: string, key: string, mark: string | null): void;
  /** Writes to the job's log. The output of `console` is logged too. */
  log(level: Level, message: string): void;
  /** A setting of the plugin. */
  config(name: string): string | null;
  /** A secret that the plugin was granted. If it was not, the error says what to grant. */
  secret(name: string): string;
}

export type Handler<Payload, Result> = (ctx: Context, payload: Payload) => Result | Promise<Result>;

/** Registers a function for a queue, or several: `handler("emails.send", send)`; `"*"` serves every other queue. Payload and
 * result are JSON. Returns the function. */
export function handler<Payload, Result>(queues: string | string[], run: Handler<Payload, Result>): Handler<Payload, Result>;

/** Makes a handler whose payload and result are bytes: `handler("thumbs", raw((ctx, image) => …))`. */
export function raw(run: Handler<Uint8Array, Uint8Array>): Handler<Uint8Array, Uint8Array>;

/** Waits. */
export function sleep(span: Duration): Promise<void>;

/** A failure that would recur in every attempt: the job is dead at once. */
export class Fatal extends Error {}

/** A failure that is retried after this time. */
export class RetryAfter extends Error {
  constructor(delay: Duration, message?: string, options?: ErrorOptions);
  readonly delayMs: number;
}

/** Not a failure: the job runs again when its children have ended. */
export class Waiting extends Error {}

/** Not a failure: the handler stopped because it was asked to. */
export class Cancelled extends Error {
  constructor(reason: Reason);
  readonly reason: Reason;
}
