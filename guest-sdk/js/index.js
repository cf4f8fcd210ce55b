// What a handler imports. The rest of the SDK is how it gets there.
export { Context } from "./src/context.js";
export { Cancelled, Fatal, RetryAfter } from "./src/errors.js";
export { handler, raw } from "./src/handlers.js";
export { sleep } from "./src/duration.js";
