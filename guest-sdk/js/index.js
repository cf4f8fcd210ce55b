// What a handler imports. The rest of the SDK is how it gets there.
export { ChildJob } from "./src/children.js";
export { Context } from "./src/context.js";
export { Cancelled, Fatal, RetryAfter, Waiting } from "./src/errors.js";
export { handler, raw } from "./src/handlers.js";
export { sleep } from "./src/duration.js";
