// Counts words, line by line: progress, checkpoints and cancel are all here.

import { type Context, handler } from "windlass";

export interface Order {
  text: string;
}

export interface Summary {
  lines: number;
  words: number;
}

interface Standing {
  done: number;
  words: number;
}

export async function countWords(ctx: Context, { text }: Order): Promise<Summary> {
  const lines = text.split("\n");
  let { done, words } = ctx.state<Standing>() ?? { done: 0, words: 0 };
  while (done < lines.length) {
    ctx.checkCancelled();
    words += lines[done].split(/\s+/).filter(Boolean).length;
    done += 1;
    ctx.progress(done, lines.length, "counting");
    ctx.checkpointEvery("1s", { done, words });
  }
  return { lines: lines.length, words };
}

handler("{{name}}", countWords);
