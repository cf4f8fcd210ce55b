#!/usr/bin/env python3
"""Fills a server with a lively demo: queues that are busy, failing, slow, held and paused; flows, rounds and a canary; workers for them.

    make demo                                   # starts a server, and this with it

or, for a server that runs already:

    export WINDLASS_API_KEY=$(cat windlass-data/admin.key)
    python3 scripts/demo-load.py                # until Ctrl-C
    python3 scripts/demo-load.py --once         # enqueue everything once, run workers for a few seconds, and end

WINDLASS_URL is the server's address (default http://127.0.0.1:7070). With `target/plugins/digest.wasm` there are plugins, too: one with
jobs that show progress, and one of which a new version is tried out. Needs Python 3.8 or newer, and no packages.
"""

import json
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

URL = os.environ.get("WINDLASS_URL", "http://127.0.0.1:7070").rstrip("/")
KEY = os.environ.get("WINDLASS_API_KEY")
ROOT = Path(__file__).resolve().parent.parent
DIGEST = Path(os.environ.get("WINDLASS_PLUGINS", ROOT / "target/plugins")) / "digest.wasm"
MANIFEST = ROOT / "plugins/digest/windlass.toml"
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"
TENANTS = ["acme", "globex", "initech"]
stopping = threading.Event()


def call(method, path, body=None, raw=None, namespace=None, kind="application/json"):
    headers = {"Content-Type": kind, **({"X-API-Key": KEY} if KEY else {})}
    if namespace:
        headers["X-Windlass-Namespace"] = namespace
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=70) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def quietly(method, path, body=None, **more):
    """What may have been done by an earlier run, or what this key may not do."""
    try:
        return call(method, path, body, **more)
    except urllib.error.HTTPError as error:
        if error.code not in (400, 403, 404, 409, 422):
            raise
        return None


def enqueue(queue, payload, namespace=None, **more):
    return call("POST", "/enqueue", {"queue": queue, "payload": payload, **more}, namespace=namespace)["job_id"]


def later(**span):
    return (datetime.now(timezone.utc) + timedelta(**span)).isoformat()


def tenant():
    return {"tenant": random.choice(TENANTS)}


# --- workers ----------------------------------------------------------------------------------------------------------------

# What each queue's workers do with a job: how many there are, the seconds that they work, the share of failures, and how those read.
WORK = {
    "emails.send": (3, 0.08, 0.05, ["SMTP timeout after {n} s", "the mailbox of user-{n} is full"]),
    "payments.capture": (1, 0.4, 0.02, ["the bank answered {n}"]),
    "sync.crm": (1, 0.3, 0.5, ["HTTP to `api.crm.example` is not granted", "429 from api.crm.example after {n} ms"]),
    "crawl.pages": (2, 0.35, 0.01, ["https://example.com/{n} answered 404"]),
    "orders.steps": (1, 1.2, 0.0, []),
    "etl.extract": (1, 3, 0.0, []),
    "etl.transform": (3, 5, 0.04, ["part {n} has no rows"]),
    "etl.load": (1, 4, 0.0, []),
    "batch.part": (1, 0.8, 0.04, ["part {n} has no rows"]),
    "batch.done": (1, 0.2, 0.0, []),
    "agents.answer": (1, 1.5, 0.03, ["the model refused to answer"]),
}


def attend(queue, number):
    """One worker: fetches, works for a while, and acks or fails."""
    _, seconds, failing, errors = WORK[queue]
    name = f"{queue.replace('.', '-')}-{number}"
    while not stopping.is_set():
        try:
            job = call("POST", "/fetch", {"queues": [queue], "worker_id": name, "hostname": f"machine-{number}", "timeout": 5})
            if not job:
                continue
            stopping.wait(random.uniform(0.5, 1.5) * seconds)
            token = {"lease_token": job.get("lease_token")}
            if random.random() < failing:
                error = random.choice(errors).format(n=random.randint(1, 900))
                backtrace = f"handler.run\n  at {queue.replace('.', '/')}.py:88\nclient.send\n  at client.py:142"
                call("POST", f"/fail/{job['job_id']}", {"error": error, "backtrace": backtrace, **token})
                continue
            if queue == "crawl.pages":
                follow_links(job)
            call("POST", f"/ack/{job['job_id']}", {"result": {"ok": True}, **used(queue), **token})
        except (urllib.error.URLError, OSError):
            stopping.wait(0.5)


def used(queue):
    """What a worker that asks a language model reports."""
    if queue != "agents.answer":
        return {}
    tokens_in, tokens_out = random.randint(800, 9000), random.randint(100, 1200)
    cost = round(tokens_in * 3e-6 + tokens_out * 15e-6, 6)
    return {"usage": {"input_tokens": tokens_in, "output_tokens": tokens_out, "model": random.choice(["small-1", "large-2"]), "provider": "example", "cost_usd": cost}}


def follow_links(job):
    """A page's links are jobs of the next round."""
    depth = job["payload"].get("depth", 0)
    for link in range(random.randint(2, 4) if depth < 3 else 0):
        page = {"url": f"{job['payload']['url']}/{link}", "depth": depth + 1}
        enqueue("crawl.pages", page, parent_id=job["job_id"])


def render():
    """A slow job at a time, with progress, a checkpoint and a message."""
    name = "renderer-1"
    while not stopping.is_set():
        try:
            job = call("POST", "/fetch", {"queues": ["reports.monthly"], "worker_id": name, "hostname": "machine-4", "timeout": 5})
            if not job:
                continue
            pages = job["payload"].get("pages", 200)
            for page in range(1, pages + 1):
                stopping.wait(0.4)
                progress = {"current": page, "total": pages, "message": f"Rendering page {page} of {pages}", "phase": "render", "unit": "pages"}
                answer = call("POST", "/heartbeat", {"worker_id": name, "jobs": {job["job_id"]: {"progress": progress, "checkpoint": {"page": page}}}})
                if stopping.is_set() or answer["jobs"].get(job["job_id"], {}).get("status") == "cancel":
                    break
            call("POST", f"/ack/{job['job_id']}", {"result": {"pages": pages}, "lease_token": job.get("lease_token")})
        except (urllib.error.URLError, OSError):
            stopping.wait(0.5)


# --- what is there from the start -------------------------------------------------------------------------------------------


def set_the_stage():
    quietly("POST", "/queues/crawl.pages/settings", {"rounds": True})
    quietly("POST", "/queues/emails.send/concurrency", {"max": 20})
    quietly("POST", "/queues/emails.send/throttle", {"rate": 1200, "period": "1m"})
    quietly("POST", "/queues/etl.transform/concurrency", {"max": 4})
    for n in range(40):
        enqueue("sync.crm", {"account": n}, max_retries=1, tags=tenant())
    for n in range(6):
        enqueue("reports.monthly", {"month": f"2026-{n + 1:02}", "pages": 240, "customer": 9007199254740993 + n}, tags={"tenant": "acme"})
    for n in range(3):
        held = enqueue("payments.capture", {"order": 1000 + n, "cents": 1250000 + 7000 * n}, tags=tenant())
        quietly("POST", f"/jobs/{held}/hold", {"reason": "above 10,000: a person decides"})
    for n in range(12):
        enqueue("emails.send", {"to": f"user-{n}@example.com", "template": "reminder"}, scheduled_at=later(minutes=5 + 13 * n), tags=tenant())
    enqueue("archive.nightly", {"keep_days": 30}, scheduled_at=later(hours=9), priority="low")
    quietly("POST", "/queues/archive.nightly/pause")
    enqueue("emails.send", {"html": HOSTILE, "to": HOSTILE}, tags={"note": HOSTILE[:60]}, scheduled_at=later(minutes=3))
    enqueue("archive.nightly", {"blob": "x" * 400_000, "rows": list(range(5000)), "big": 12345678901234567890123})
    schedules = [("month-end", "reports.monthly", "0 6 1 * *", {"pages": 40}), ("heartbeat", "emails.send", "*/5 * * * *", {"to": "ops@example.com"}), ("nightly-archive", "archive.nightly", "30 2 * * 1-5", {"keep_days": 30})]
    for name, queue, cron, payload in schedules:
        quietly("POST", "/schedules", {"name": name, "queue": queue, "cron": cron, "timezone": "Europe/Berlin", "payload": payload})
    quietly("POST", "/webhooks", {"url": "https://hooks.example.com/windlass", "events": ["dead"], "enabled": False})
    quietly("PUT", "/secrets/smtp-password", raw=b"an-example-and-no-password", kind="text/plain")
    for name, role in [("billing", "producer"), ("dashboard", "viewer"), ("deploys", "deployer")]:
        quietly("POST", "/auth/keys", {"name": name, "role": role})
    quietly("POST", "/namespaces", {"name": "acme"})
    for n in range(5):
        quietly("POST", "/enqueue", {"queue": "acme.only", "payload": {"n": n}}, namespace="acme")
    if DIGEST.exists():
        plugins(DIGEST.read_bytes())


def another_version(component):
    """The same component with a section more, which has no meaning: other bytes, so another version."""
    name = b"demo"
    body = bytes([len(name)]) + name + b"two"
    return component + b"\x00" + bytes([len(body)]) + body


def plugins(component):
    """One with long jobs that show progress; and one with a canary under way, some of whose jobs fail."""
    kind = "application/wasm"
    call("PUT", "/plugins/digest?queues=demo.digest", raw=component, kind=kind)
    call("PUT", "/plugins/digest/manifest", raw=MANIFEST.read_bytes(), kind="application/toml")
    call("PUT", "/plugins/thumbs?queues=images.resize", raw=component, kind=kind)
    quietly("POST", "/queues/images.resize/concurrency", {"max": 12})
    second = call("PUT", "/plugins/thumbs?queues=images.resize&activate=false", raw=another_version(component), kind=kind)
    canary = {"version": second["version"], "share": 25, "max_failure_rate": 0.2, "min_attempts": 50, "promote_after": 2000}
    quietly("POST", "/plugins/thumbs/canary", canary)
    enqueue("demo.digest", {"generate_mb": "many"}, max_retries=1)


# --- what goes on -----------------------------------------------------------------------------------------------------------


def flow_of_thirty():
    """Extract, then twelve transforms that are checked, four loads, and one report: thirty jobs that wait for each other."""
    first = enqueue("etl.extract", {"table": "orders"}, tags={"flow": "nightly"})
    parts = [enqueue("etl.transform", {"part": n}, depends_on=[first]) for n in range(12)]
    checks = [enqueue("etl.transform", {"check": n}, depends_on=[part]) for n, part in enumerate(parts)]
    loads = [enqueue("etl.load", {"shard": n}, depends_on=checks[3 * n : 3 * n + 3], on_dependency_failure="continue") for n in range(4)]
    enqueue("etl.load", {"report": True}, depends_on=loads)


def batch_and_chain():
    steps = [{"queue": "orders.steps", "payload": {"step": word}} for word in ["reserve", "charge", "pack", "label", "ship", "thank"]]
    call("POST", "/enqueue", {"queue": "orders.steps", "payload": {"order": random.randint(1000, 9999)}, "chain": {"steps": steps}})
    parts = [{"queue": "batch.part", "payload": {"part": n}, "max_retries": 2} for n in range(24)]
    call("POST", "/enqueue/batch", {"jobs": parts, "batch": {"callback_queue": "batch.done", "callback_payload": {"of": "parts"}}})


def crawl():
    for site in range(3):
        enqueue("crawl.pages", {"url": f"https://site-{site}.example.com", "depth": 0})


def long_ones():
    for seed in range(2):
        enqueue("demo.digest", {"generate_mb": 160, "seed": seed, "pause_ms": 400}, tags=tenant())


def every_moment(at):
    jobs = [{"queue": "emails.send", "payload": {"to": f"user-{random.randint(1, 900)}@example.com", "template": "welcome"}, "tags": tenant()} for _ in range(random.randint(3, 12))]
    if at % 2 == 0:
        jobs.append({"queue": "agents.answer", "payload": {"question": f"What changed in release {at}?"}, "tags": tenant()})
    if DIGEST.exists():
        order = {"generate_mb": "many"} if at % 25 == 0 else {"generate_mb": 2, "seed": at, "step_kb": 256, "pause_ms": 60}
        jobs += [{"queue": "images.resize", "payload": order, "max_retries": 1, "tags": tenant()} for _ in range(2)]
    if at % 4 == 0:
        jobs.append({"queue": "payments.capture", "payload": {"order": at}, "priority": "high", "max_retries": 2, "retry_base_delay": "30s"})
    if at % 10 == 0:
        jobs.append({"queue": "sync.crm", "payload": {"account": at}, "max_retries": 2, "retry_base_delay": "20s", "tags": tenant()})
    call("POST", "/enqueue/batch", {"jobs": jobs})


def keep_busy():
    # How often, in moments of 0.7 s.
    rarely = {flow_of_thirty: 220, batch_and_chain: 130, crawl: 260, long_ones: 90}
    at = 0
    while not stopping.is_set():
        try:
            for begin, every in rarely.items():
                if at % every == 0:
                    begin()
            every_moment(at)
        except (urllib.error.URLError, OSError):
            pass
        at += 1
        stopping.wait(0.7)


def main():
    random.seed(7)
    set_the_stage()
    jobs = [(attend, (queue, number + 1)) for queue, (count, *_) in WORK.items() for number in range(count)]
    jobs += [(render, ()), (keep_busy, ())]
    for target, arguments in jobs:
        threading.Thread(target=target, args=arguments, daemon=True).start()
    print(f"the demo runs on {URL}/ui/ until Ctrl-C", file=sys.stderr)
    try:
        stopping.wait(8 if "--once" in sys.argv else None)
    except KeyboardInterrupt:
        pass
    stopping.set()


if __name__ == "__main__":
    main()
