// Why a handler failed, and whether and when it is retried. Any other error is retried with the job's backoff.

import { millis } from "./duration.js";

export class Fatal extends Error {
  name = "Fatal";
}

export class RetryAfter extends Error {
  name = "RetryAfter";

  constructor(delay, message = "to be tried again later", options) {
    super(message, options);
    this.delayMs = millis(delay);
  }
}

export class Waiting extends Error {
  name = "Waiting";

  constructor() {
    super("waits for its children");
  }
}

export class Cancelled extends Error {
  name = "Cancelled";

  constructor(reason) {
    super(`stopped on request: ${reason}`);
    this.reason = reason;
  }
}
