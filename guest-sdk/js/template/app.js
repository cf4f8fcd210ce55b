// Counts to a number, in steps that survive a crash. Replace the sum with your own work.

import { handler } from "windlass";

export async function count(ctx, { steps }) {
  let { done, sum } = ctx.state() ?? { done: 0, sum: 0 };
  while (done < steps) {
    ctx.checkCancelled();
    done += 1;
    sum += done;
    ctx.progress(done, steps, "counting");
    ctx.checkpoint({ done, sum });
  }
  return { sum };
}

handler("{{name}}", count);
