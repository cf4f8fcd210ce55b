"""Counts words, line by line: progress, checkpoints and cancel are all here."""

from dataclasses import dataclass

import windlass


@dataclass
class Order:
    text: str


@dataclass
class Standing:
    done: int = 0
    words: int = 0


@windlass.handler("{{name}}")
def count_words(ctx: windlass.Context, order: Order) -> dict:
    lines = order.text.split("\n")
    standing = ctx.state(Standing) or Standing()
    while standing.done < len(lines):
        ctx.check_cancelled()
        standing.words += len(lines[standing.done].split())
        standing.done += 1
        ctx.progress(standing.done, len(lines), "counting")
        ctx.checkpoint_every("1s", standing)
    return {"lines": len(lines), "words": standing.words}
