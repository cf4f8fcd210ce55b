// A stand-in for the server, to test handlers natively, without wasm.

import type { Handler, Level, Progress, Reason, Recorded } from "./index.js";

/** A child as the server would start it. */
export interface Child {
  queue: string;
  payload: Uint8Array;
  priority: "critical" | "high" | "normal" | null;
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
  /** The children that were really started: committed with a checkpoint or a result. */
  readonly children: Child[];
  /** Asks the handler to stop when it has looked this many times; 0 is at its first look. */
  cancelAfter(looks: number, reason?: Reason): void;
  /** Lets this many checkpoints succeed and refuses those after: as good as a crash. */
  failCheckpointsAfter(checkpoints: number): void;
  /** Takes both back, as a new attempt would find it. */
  resume(): void;
  /** What another job has recorded under a key of a queue. */
  putRecord(queue: string, key: string, value: unknown): void;
  /** What is committed under a key of a queue: by the handler, or by the test. */
  getRecord<T>(queue: string, key: string): Recorded<T> | null;
  /** A child has completed with this result. To be said before the attempt that follows a wait. */
  childCompleted(ordinal: number, result: unknown): void;
  /** A child is dead, with this error. */
  childDied(ordinal: number, error: string): void;
  /** Runs a handler as the next attempt, through JSON both ways as the server would. Bytes stay bytes. When it waits for its children, that
   * is thrown: Waiting. */
  run<Payload, Result>(handler: Handler<Payload, Result>, payload: Payload): Promise<Result>;
  /** The state saved last. */
  state<T>(): T | null;
}
