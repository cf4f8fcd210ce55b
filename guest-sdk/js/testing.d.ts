// A stand-in for the server, to test handlers natively, without wasm.

import type { Handler, Level, Progress, Reason, Recorded } from "./index.js";

/** A child, as the server would start it. */
export interface Child {
  queue: string;
  payload: Uint8Array;
  priority: "critical" | "high" | "normal" | "low" | null;
  delayMs: number | null;
  maxAttempts: number | null;
  uniqueKey: string | null;
  uniquePeriodMs: number | null;
  tags: Record<string, string>;
  scope: string | null;
}

/** A fake server with one job. */
export class Fake {
  constructor(options?: {
    queue?: string;
    tags?: Record<string, string>;
    scope?: string;
    round?: number;
    config?: Record<string, string>;
    secrets?: Record<string, string>;
  });
  /** The progress events of all attempts. */
  readonly progress: Progress[];
  /** The log of all attempts. */
  readonly log: [Level, string][];
  /** How many checkpoints were saved. */
  readonly saves: number;
  /** The children that were committed, with a checkpoint, a result or a wait. */
  readonly children: Child[];
  /** Asks the handler to stop after it has checked this many times; 0 is at its first check. */
  cancelAfter(checks: number, reason?: Reason): void;
  /** Lets this many checkpoints succeed and refuses all later ones, to simulate a crash. */
  failCheckpointsAfter(checkpoints: number): void;
  /** Undoes `cancelAfter` and `failCheckpointsAfter`, for the next attempt. */
  resume(): void;
  /** Stores a record under a key of a queue, as another job would have. */
  putRecord(queue: string, key: string, value: unknown): void;
  /** The committed record under a key of a queue, whether stored by the handler or by the test. */
  getRecord<T>(queue: string, key: string): Recorded<T> | null;
  /** Makes a child complete with this result. Call it before the attempt that follows a wait. */
  childCompleted(ordinal: number, result: unknown): void;
  /** Makes a child dead with this error. */
  childDied(ordinal: number, error: string): void;
  /** Runs a handler as the next attempt. As on the server, payload and result pass through JSON, unless they are bytes. Throws Waiting if
   * the handler waits for its children. */
  run<Payload, Result>(handler: Handler<Payload, Result>, payload: Payload): Promise<Result>;
  /** The last saved state. */
  state<T>(): T | null;
}
