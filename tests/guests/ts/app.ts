// Does what the payload's `mode` says: what every language must be able to do.

import { type Context, Fatal, type OnFailure, RetryAfter, handler, sleep } from "windlass";

interface Order {
  mode: string;
  text?: string;
  steps?: number;
  pause_ms?: number;
  ms?: number;
  queue?: string;
  count?: number;
  bad?: number;
  on_failure?: OnFailure;
  name?: string;
  url?: string;
}

type Mode = (ctx: Context, order: Order) => unknown;

const modes: Record<string, Mode> = {
  noop: () => ({}),

  echo: (ctx, { text }) => ({ text, bytes: ctx.job.payload.length }),

  async steps(ctx, { steps = 0, pause_ms = 0 }) {
    const from = ctx.state<number>() ?? 0;
    let done = from;
    while (done < steps) {
      ctx.checkCancelled();
      done += 1;
      ctx.log("info", `step ${done}`);
      if (pause_ms > 0) await sleep(pause_ms);
      ctx.progress(done, steps, `step ${done}`);
      ctx.checkpoint(done);
    }
    return { steps, ran: done - from, from, attempt: ctx.job.attempt };
  },

  spin() {
    for (;;);
  },

  fail(_ctx, { text }) {
    throw new Error(text);
  },

  fatal(_ctx, { text }) {
    throw new Fatal(text);
  },

  retry_after(_ctx, { text, ms = 0 }) {
    throw new RetryAfter(ms, text);
  },

  panic(_ctx, { text }) {
    throw new RangeError(text);
  },

  spawn(ctx, { queue = "", count = 0, text }) {
    for (let i = 0; i < count; i++) ctx.spawn(queue, { mode: "echo", text }, { priority: "low" });
    return { spawned: count };
  },

  join(ctx, { queue = "", count = 0, bad = 0, text, on_failure = "fail" }) {
    const counts = ctx.joined();
    if (counts === null) {
      for (let n = 0; n < count; n++) ctx.spawn(queue, { mode: n < bad ? "fatal" : "echo", text });
      return ctx.waitForChildren(count, { onFailure: on_failure });
    }
    if (ctx.state<number>() !== count) throw new Fatal("the state that the wait saved is not there");
    const texts: string[] = [];
    for (const child of ctx.children()) if (child.state === "completed") texts.push(child.result<{ text: string }>().text);
    return { total: counts.total, completed: counts.completed, dead: counts.dead, texts };
  },

  record(ctx, { queue = "", name = "", text }) {
    const found = ctx.getRecord<string>(queue, name);
    ctx.putRecord(name, text);
    ctx.mark(queue, name, "seen");
    return { found: found?.value ?? null, mark: found?.mark ?? null, round: ctx.job.round };
  },

  config: (ctx, { name = "" }) => ({ value: ctx.config(name) }),

  secret: (ctx, { name = "" }) => ({ value: ctx.secret(name) }),

  async fetch(_ctx, { url = "" }) {
    const answer = await fetch(url);
    return { status: answer.status, body: await answer.text() };
  },
};

handler("*", (ctx, order: Order) => {
  const mode = Object.hasOwn(modes, order.mode) ? modes[order.mode] : undefined;
  if (mode === undefined) throw new Fatal(`unknown mode \`${order.mode}\``);
  return mode(ctx, order);
});
