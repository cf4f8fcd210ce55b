// One request to one webhook, and what its answer means.

import type { Target } from "./app.ts";

export interface Message {
  id: string;
  body: Uint8Array;
  /** Signs a text; null sends no signature. */
  sign: ((text: string) => Promise<string>) | null;
  timeoutMs: number;
}

export interface Outcome {
  url: string;
  /** 0 when no answer came. */
  status: number;
  words: string;
  /** Worth another try: no answer, too busy, or a fault over there. */
  again: boolean;
  retryAfterMs: number | null;
}

const LONGEST_WAIT_MS = 3_600_000;

/** A redirect is not followed: the signature was for this address. */
export async function deliver(target: Target, message: Message): Promise<Outcome> {
  const seconds = Math.floor(Date.now() / 1000);
  const headers: Record<string, string> = {
    "content-type": "application/json",
    ...target.headers,
    "webhook-id": message.id,
    "webhook-timestamp": String(seconds),
  };
  if (message.sign !== null) {
    const text = new TextDecoder().decode(message.body);
    headers["webhook-signature"] = `v1,${await message.sign(`${message.id}.${seconds}.${text}`)}`;
  }
  try {
    const answer = await fetch(target.url, {
      method: "POST",
      headers,
      body: message.body as BodyInit,
      redirect: "manual",
      signal: AbortSignal.timeout(message.timeoutMs),
    });
    const again = answer.status >= 500 || answer.status === 408 || answer.status === 425 || answer.status === 429;
    return { url: target.url, status: answer.status, words: `answered ${answer.status}`, again, retryAfterMs: wait(answer.headers.get("retry-after")) };
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return { url: target.url, status: 0, words, again: true, retryAfterMs: null };
  }
}

/** Retry-After is in seconds, or a date. */
function wait(header: string | null): number | null {
  if (header === null) return null;
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return ms > 0 ? Math.min(ms, LONGEST_WAIT_MS) : null;
}
