// Between values and bytes: payload, state and result.

import { Fatal } from "./errors.js";

/** JSON, or the bytes themselves. A value that JSON cannot represent is fatal: it would fail in every attempt. */
export function toBytes(value, what) {
  if (value instanceof Uint8Array) return value;
  let text;
  try {
    text = JSON.stringify(value ?? null);
  } catch (error) {
    throw new Fatal(`the ${what} cannot be written as JSON: ${error.message}`);
  }
  if (text === undefined) throw new Fatal(`the ${what} cannot be written as JSON: it is a ${typeof value}`);
  return new TextEncoder().encode(text);
}

export function fromBytes(bytes) {
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
}
