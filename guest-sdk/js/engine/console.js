// `console` writes to the job's log, with its level. What modules say while they are loaded belongs to no job, and goes nowhere.

import { write } from "windlass:job/log@0.1.0";

import { running } from "./loop.js";

function show(value) {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ""}`.trimEnd();
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return String(value);
  const seen = new Set();
  try {
    return JSON.stringify(value, (_, inner) => {
      if (typeof inner === "bigint") return `${inner}n`;
      if (inner instanceof Map) return Object.fromEntries(inner);
      if (inner instanceof Set) return [...inner];
      if (typeof inner !== "object" || inner === null) return inner;
      if (seen.has(inner)) return "(seen above)";
      seen.add(inner);
      return inner;
    });
  } catch {
    return String(value);
  }
}

const writer = (level) => (...values) => {
  if (running) write(level, values.map(show).join(" ").toWellFormed());
};

export const console = {
  debug: writer("debug"),
  trace: writer("debug"),
  log: writer("info"),
  info: writer("info"),
  warn: writer("warn"),
  error: writer("error"),
  assert(fine, ...values) {
    if (!fine) console.error("assertion failed:", ...values);
  },
};
