// Counts to a number, in steps that survive a crash. Put your own work in the place of the sum.

import { type Context, handler } from "windlass";

export interface Order {
  steps: number;
}

/** What a checkpoint holds. */
interface Standing {
  done: number;
  sum: number;
}

export async function count(ctx: Context, { steps }: Order): Promise<{ sum: number }> {
  let { done, sum } = ctx.state<Standing>() ?? { done: 0, sum: 0 };
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
