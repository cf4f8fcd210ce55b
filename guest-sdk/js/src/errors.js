// Why a handler did not succeed, and what should happen next. Any other error is tried again, with the job's backoff.

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
