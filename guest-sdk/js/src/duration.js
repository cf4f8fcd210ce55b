// Spans of time, as users write them: "500ms", "1s", "5m", "2h", "1d", or milliseconds as a number.

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function millis(span) {
  if (typeof span === "number" && span >= 0 && Number.isFinite(span)) return Math.round(span);
  const found = typeof span === "string" && /^\s*([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)\s*$/.exec(span);
  if (!found) throw new RangeError(`\`${span}\` is no span of time; it should be like 500ms, 1s, 5m, 2h or 1d, or milliseconds`);
  return Math.round(Number(found[1]) * UNITS[found[2]]);
}

export function sleep(span) {
  return new Promise((resolve) => setTimeout(resolve, millis(span)));
}
