// Write handlers for the Windlass job server in JavaScript and TypeScript.

/** A span of time: `"500ms"`, `"1s"`, `"5m"`, `"2h"`, `"1d"`, or milliseconds as a number. */
export type Duration = string | number;
export type Level = "debug" | "info" | "warn" | "error";
export type Reason = "user" | "timeout" | "shutdown" | "swap";

/** One job, as one attempt sees it. */
export interface Job {
  id: string;
  queue: string;
  /** What the producer sent, byte for byte. */
  payload: Uint8Array;
  /** Counted from 1. */
  attempt: number;
  /** How many attempts may fail. `attempt` can be higher: one that the server handed back is not counted. */
  maxAttempts: number;
  tags: Record<string, string>;
  /** What the job is about, as `type:id`. */
  scope: string | null;
  /** Milliseconds since 1970. */
  createdAtMs: number;
  /** When this attempt will be stopped, in milliseconds since 1970. */
  deadlineMs: number | null;
}

/** A request to stop. */
export interface Cancel {
  reason: Reason;
  /** After this the attempt is stopped dead. */
  timeLeftMs: number;
}

/** One thing to tell the watchers of a job. */
export interface Progress {
  message?: string;
  /** The part of the work that is under way. */
  phase?: string;
  level?: Level;
  /** More, for those who open the event. By convention JSON. */
  detail?: string;
  /** A share of the whole, from 0 to 100; or a count: */
  percent?: number;
  current?: number;
  total?: number;
  /** What is counted: `rows`, `bytes`. */
  unit?: string;
  /** How much this phase counts among the job's phases. */
  weight?: number;
}

/** What a child may have besides queue and payload. What is left out is decided by the queue's own settings. */
export interface ChildOptions {
  priority?: "critical" | "high" | "normal";
  /** How long it waits before it may start. */
  delay?: Duration;
  maxAttempts?: number;
  /** Not started if a job with this key exists already. */
  uniqueKey?: string;
  /** For how long the key is held at most. */
  uniquePeriod?: Duration;
  tags?: Record<string, string>;
  scope?: string;
}

/** What becomes of a job that waits when one of its children dies or is cancelled: it fails with it, the other children are cancelled,
 * or it goes on when all have ended, however they did. */
export type OnFailure = "fail" | "cancel" | "continue";

/** How many children a job has had, over all attempts, and how they ended. */
export interface ChildCounts {
  total: number;
  completed: number;
  dead: number;
  cancelled: number;
}

/** A job that this one has started. */
export class ChildJob {
  /** As `spawn` gave it. */
  readonly ordinal: number;
  readonly id: string;
  readonly queue: string;
  /** `open` if nobody has waited for it. */
  readonly state: "open" | "completed" | "dead" | "cancelled";
  /** Its last error, when it had one. */
  readonly error: string | null;
  /** How many bytes it gave back. */
  readonly resultBytes: number;
  /** What it gave back, read as JSON; null if that is nothing. A child that did not complete is an error that says why. A large result is
   * read from the server now, and not kept. */
  result<T>(): T;
  /** The bytes that it gave back, if any. */
  resultRaw(): Uint8Array | null;
}

/** What a job has recorded under a key, and the mark that somebody has put on it. */
export interface Recorded<T> {
  value: T;
  mark: string | null;
}

/** How a handler talks to the server. Belongs to one attempt. */
export class Context {
  /** The job this attempt is for. */
  readonly job: Job;
  /** The version of your state format, 1 unless set. Raise it when you change what you save. */
  schema: number;
  /** Says how far the work has come: `current` of `total`. Never fails, never waits for the disk. */
  progress(current: number, total?: number, message?: string): void;
  /** Reports a progress event in its full form. */
  report(progress: Progress): void;
  /** Saves state for the next attempt: as JSON, or as it is when it is bytes. When it returns, the state is on disk, together with
   * the children spawned before. That takes about half a millisecond. */
  checkpoint(state: unknown): void;
  /** Saves state if the last time is at least `period` ago, and says whether it did. For loops whose steps are short. */
  checkpointEvery(period: Duration, state: unknown): boolean;
  /** The state that an earlier attempt saved, or null in the first. State of another schema is an error, not a guess. */
  state<T>(): T | null;
  /** The bytes of the saved state and their schema, to migrate them by hand. */
  stateRaw(): { schema: number; state: Uint8Array } | null;
  /** A request to stop, if there is one. Cheap: ask between any two steps. */
  cancelled(): Cancel | null;
  /** Throws Cancelled when there is a request to stop. */
  checkCancelled(): void;
  /** Starts another job, together with the next checkpoint or the result, or never. Returns its ordinal among the children of
   * this job. */
  spawn(queue: string, payload: unknown, options?: ChildOptions): number;
  /** Ends this attempt, by throwing Waiting: the job goes on, from this state, when all its children have ended. Without a state the last
   * checkpoint stays. Children, state and wait are committed in one step. While it waits the job holds no memory and no place, and is charged
   * for nothing. */
  waitForChildren(state?: unknown, options?: { onFailure?: OnFailure }): never;
  /** How the children ended, if this attempt follows a wait for them; null if it does not. */
  joined(): ChildCounts | null;
  /** The children, in the order they were spawned. They are read as the loop goes on, a page at a time. */
  children(): IterableIterator<ChildJob>;
  /** The round that this job is in, if its queue runs round by round. */
  round(): number | null;
  /** Notes a value under a key of the job's own queue, for other jobs to read: as JSON, or as it is when it is bytes. It is committed with
   * the next checkpoint or the result, or never. A value has at most 64 KiB; what was under the key before is replaced. */
  putRecord(key: string, value: unknown): void;
  /** What is committed under a key of a queue, or null. It must be a queue that the plugin serves, or that a gate ties to the job's own. */
  getRecord<T>(queue: string, key: string): Recorded<T> | null;
  /** The same as bytes. */
  getRecordRaw(queue: string, key: string): Recorded<Uint8Array> | null;
  /** Puts a mark on a record, or takes it off with null; committed as a record is. Marked ones can be listed, and their jobs swept. */
  mark(queue: string, key: string, mark: string | null): void;
  /** Writes to the job's log. `console` goes there too. */
  log(level: Level, message: string): void;
  /** A setting of the plugin. */
  config(name: string): string | null;
  /** A secret that the plugin was granted. The error says what to grant. */
  secret(name: string): string;
}

export type Handler<Payload, Result> = (ctx: Context, payload: Payload) => Result | Promise<Result>;

/** Registers a function for a queue, or several: `handler("emails.send", send)`; `"*"` takes what is left. Payload and result are
 * JSON. Returns the function. */
export function handler<Payload, Result>(queues: string | string[], run: Handler<Payload, Result>): Handler<Payload, Result>;

/** Makes a handler of bytes: `handler("thumbs", raw((ctx, image) => …))`. */
export function raw(run: Handler<Uint8Array, Uint8Array>): Handler<Uint8Array, Uint8Array>;

/** Waits. */
export function sleep(span: Duration): Promise<void>;

/** Failed, and would fail again: the job is dead at once. */
export class Fatal extends Error {}

/** Failed; try again after this time. */
export class RetryAfter extends Error {
  constructor(delay: Duration, message?: string, options?: ErrorOptions);
  readonly delayMs: number;
}

/** Not a failure: the job goes on when its children have ended. */
export class Waiting extends Error {}

/** Not a failure: the handler was asked to stop, and did. */
export class Cancelled extends Error {
  constructor(reason: Reason);
  readonly reason: Reason;
}
