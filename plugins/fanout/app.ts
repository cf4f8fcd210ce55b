// Sends one event to many webhooks, several at a time, each with a signature.
//
// Every answer is saved before the next request goes out, so a later attempt sends nothing to those who have it. Whoever was not
// reached or was too busy is tried again with the job's own backoff; whoever refused for good is listed in the result.

import { type Context, Fatal, RetryAfter, handler } from "windlass";

import { deliver, type Outcome } from "./deliver.ts";
import { signer } from "./sign.ts";

export interface Target {
  url: string;
  /** The name of the secret to sign with. It must be granted to the plugin. */
  secret?: string;
  headers?: Record<string, string>;
}

export interface Order {
  /** What happened; it is sent as JSON. */
  event: unknown;
  targets: (Target | string)[];
  /** For targets that name no secret of their own. */
  secret?: string;
  /** Requests at a time. 8 when absent. */
  concurrency?: number;
  /** How long one answer may take. 10 seconds when absent. */
  timeout_ms?: number;
}

export interface Summary {
  delivered: number;
  refused: { url: string; status: number }[];
  /** How many requests were sent, over all attempts. */
  requests: number;
}

/** What a checkpoint holds: for every target, what came of it; null while nothing is settled. */
interface Standing {
  outcomes: (number | null)[];
  requests: number;
}

const MOST_TARGETS = 10_000;
const MOST_AT_ONCE = 64;

export async function fanout(ctx: Context, order: Order): Promise<Summary> {
  const targets = check(order);
  const body = new TextEncoder().encode(JSON.stringify(order.event));
  const sign = signer((name) => ctx.secret(name));
  const standing = ctx.state<Standing>() ?? { outcomes: targets.map(() => null), requests: 0 };
  const waiting = targets.flatMap((_, i) => (standing.outcomes[i] === null ? [i] : []));
  if (waiting.length < targets.length) console.log(`going on with ${waiting.length} of ${targets.length} targets`);

  const failed: Outcome[] = [];
  let next = 0;
  const work = async () => {
    while (next < waiting.length && ctx.cancelled() === null) {
      const i = waiting[next++];
      const target = targets[i];
      const outcome = await deliver(target, {
        // The same in every attempt, so that a receiver can tell a repetition.
        id: `${ctx.job.id}-${i}`,
        body,
        sign: target.secret === undefined ? null : (text) => sign(target.secret as string, text),
        timeoutMs: order.timeout_ms ?? 10_000,
      });
      standing.requests += 1;
      if (outcome.again) {
        failed.push(outcome);
        ctx.log("warn", `${target.url}: ${outcome.words}`);
      } else {
        standing.outcomes[i] = outcome.status;
      }
      ctx.checkpoint(standing);
      const settled = standing.outcomes.filter((status) => status !== null).length;
      ctx.report({ message: `${target.url}: ${outcome.words}`, phase: "deliver", current: settled, total: targets.length, unit: "targets" });
    }
  };
  await Promise.all(Array.from({ length: Math.min(order.concurrency ?? 8, waiting.length) }, work));

  ctx.checkCancelled();
  if (failed.length > 0) throw again(failed, targets.length);
  return summary(targets, standing);
}

/** Fatal is what would be so next time, too. */
function check(order: Order): Target[] {
  if (!Array.isArray(order.targets) || order.targets.length === 0) throw new Fatal("targets: name at least one address");
  if (order.targets.length > MOST_TARGETS) throw new Fatal(`targets: at most ${MOST_TARGETS}`);
  if (order.event === undefined) throw new Fatal("event: there is nothing to send");
  const { concurrency = 8, timeout_ms = 10_000 } = order;
  if (!(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= MOST_AT_ONCE)) {
    throw new Fatal(`concurrency must be a whole number from 1 to ${MOST_AT_ONCE}`);
  }
  if (!(timeout_ms > 0)) throw new Fatal("timeout_ms must be more than zero");
  return order.targets.map((given) => {
    const target = typeof given === "string" ? { url: given } : given;
    if (!/^https?:\/\//i.test(target?.url ?? "")) throw new Fatal(`targets: \`${target?.url}\` is no http or https address`);
    return { secret: order.secret, ...target };
  });
}

/** The error that has the job tried again: when the busiest receiver asked for it, or by the job's own backoff. */
function again(failed: Outcome[], total: number): Error {
  const words = `${failed.length} of ${total} were not reached: ${failed.slice(0, 3).map((each) => `${each.url} (${each.words})`).join(", ")}${failed.length > 3 ? ", …" : ""}`;
  const asked = Math.max(...failed.map((each) => each.retryAfterMs ?? 0));
  return asked > 0 ? new RetryAfter(asked, words) : new Error(words);
}

function summary(targets: Target[], { outcomes, requests }: Standing): Summary {
  const refused = targets.flatMap(({ url }, i) => {
    const status = outcomes[i] ?? 0;
    return status >= 200 && status < 300 ? [] : [{ url, status }];
  });
  return { delivered: targets.length - refused.length, refused, requests };
}

handler("*", fanout);
