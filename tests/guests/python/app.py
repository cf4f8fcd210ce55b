"""Does what the payload's `mode` says: what every language must be able to do."""

import time
import urllib.request
from dataclasses import dataclass

import windlass


@dataclass
class Order:
    mode: str
    text: str = ""
    steps: int = 0
    pause_ms: int = 0
    ms: int = 0
    queue: str = ""
    count: int = 0
    bad: int = 0
    on_failure: str = "fail"
    name: str = ""
    url: str = ""


@windlass.handler("*")
def run(ctx: windlass.Context, order: Order) -> object:
    mode = MODES.get(order.mode)
    if mode is None:
        raise windlass.Fatal(f"unknown mode `{order.mode}`")
    return mode(ctx, order)


def noop(ctx, order):
    return {}


def echo(ctx, order):
    return {"text": order.text, "bytes": len(ctx.job.payload)}


def steps(ctx, order):
    start = done = ctx.state(int) or 0
    while done < order.steps:
        ctx.check_cancelled()
        done += 1
        ctx.log("info", f"step {done}")
        if order.pause_ms > 0:
            time.sleep(order.pause_ms / 1000)
        ctx.progress(done, order.steps, f"step {done}")
        ctx.checkpoint(done)
    return {"steps": order.steps, "ran": done - start, "from": start, "attempt": ctx.job.attempt}


def spin(ctx, order):
    while True:
        pass


def fail(ctx, order):
    raise RuntimeError(order.text)


def fatal(ctx, order):
    raise windlass.Fatal(order.text)


def retry_after(ctx, order):
    raise windlass.RetryAfter(order.ms / 1000, order.text)


def panic(ctx, order):
    raise LookupError(order.text)


def spawn(ctx, order):
    for _ in range(order.count):
        ctx.spawn(order.queue, {"mode": "echo", "text": order.text}, priority="low")
    return {"spawned": order.count}


def join(ctx, order):
    counts = ctx.joined()
    if counts is None:
        for n in range(order.count):
            ctx.spawn(order.queue, {"mode": "fatal" if n < order.bad else "echo", "text": order.text})
        ctx.wait_for_children(order.count, on_failure=order.on_failure)
    if ctx.state(int) != order.count:
        raise windlass.Fatal("the state that the wait saved is not there")
    texts = [child.result()["text"] for child in ctx.children() if child.state == "completed"]
    return {"total": counts.total, "completed": counts.completed, "dead": counts.dead, "texts": texts}


def record(ctx, order):
    found = ctx.get_record(order.queue, order.name, str)
    ctx.put_record(order.name, order.text)
    ctx.mark(order.queue, order.name, "seen")
    return {"found": found and found.value, "mark": found and found.mark, "round": ctx.job.round}


def config(ctx, order):
    return {"value": ctx.config(order.name)}


def secret(ctx, order):
    return {"value": ctx.secret(order.name)}


def fetch(ctx, order):
    with urllib.request.urlopen(order.url, timeout=10) as answer:
        return {"status": answer.status, "body": answer.read().decode()}


MODES = {
    each.__name__: each
    for each in (noop, echo, steps, spin, fail, fatal, retry_after, panic, spawn, join, record, config, secret, fetch)
}
