"""Counts to a number, in steps that survive a crash. Replace the sum with your own work."""

from dataclasses import dataclass

import windlass


@dataclass
class Order:
    steps: int


@dataclass
class Standing:
    """What a checkpoint holds."""

    done: int = 0
    sum: int = 0


@windlass.handler("{{name}}")
def count(ctx: windlass.Context, order: Order) -> dict:
    at = ctx.state(Standing) or Standing()
    while at.done < order.steps:
        ctx.check_cancelled()
        at.done += 1
        at.sum += at.done
        ctx.progress(at.done, order.steps, "counting")
        ctx.checkpoint(at)
    return {"sum": at.sum}
