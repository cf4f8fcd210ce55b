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

/** Not a failure: the handler was asked to stop, and did. */
export class Cancelled extends Error {
  constructor(reason: Reason);
  readonly reason: Reason;
}
