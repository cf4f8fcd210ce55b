#!/usr/bin/env python3
"""Fills a server with a lively demo: queues that are busy, failing, slow, held and paused, flows, rounds, and workers for them.

    make run                                    # in one terminal: a server
    export WINDLASS_API_KEY=$(cat windlass-data/admin.key)
    python3 scripts/demo-load.py                # in another: the demo, until Ctrl-C
    python3 scripts/demo-load.py --once         # enqueue everything once, run workers for a few seconds, and end

WINDLASS_URL is the server's address (default http://127.0.0.1:7070). With `target/plugins/digest.wasm` there is a plugin
with jobs that show progress, too. Needs Python 3.8 or newer, and no packages.
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
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"
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
    """What may have been done by an earlier run."""
    try:
        return call(method, path, body, **more)
    except urllib.error.HTTPError as error:
        if error.code not in (400, 404, 409):
            raise
        return None


def enqueue(queue, payload, namespace=None, **more):
    return call("POST", "/enqueue", {"queue": queue, "payload": payload, **more}, namespace=namespace)["job_id"]


def later(**span):
    return (datetime.now(timezone.utc) + timedelta(**span)).isoformat()


# What each queue's worker does with a job: seconds to work, the share of failures, and how they read.
WORK = {
    "emails.send": (0.05, 0.06, ["SMTP timeout after {n} s", "mailbox of user-{n} is full"]),
    "images.resize": (0.2, 0.03, ["memory: 256 MiB is the limit, and {n} MiB were asked for"]),
    "payments.capture": (0.4, 0.02, ["the bank answered {n}"]),
    "sync.crm": (0.3, 0.5, ["HTTP to `api.crm.example` is not granted", "429 from api.crm.example after {n} ms"]),
    "crawl.pages": (0.15, 0.0, []),
    "orders.steps": (0.3, 0.05, ["step {n} was refused"]),
    "batch.part": (0.5, 0.04, ["part {n} has no rows"]),
    "batch.done": (0.1, 0.0, []),
}


def worker(queue):
    seconds, failing, errors = WORK[queue]
    name = f"demo-{queue}-{os.getpid()}"
    while not stopping.is_set():
        try:
            job = call("POST", "/fetch", {"queues": [queue], "worker_id": name, "hostname": "demo", "timeout": 2})
            if not job:
                continue
            time.sleep(random.uniform(0.5, 1.5) * seconds)
            token = {"lease_token": job.get("lease_token")}
            if random.random() < failing:
                error = random.choice(errors).format(n=random.randint(1, 900))
                call("POST", f"/fail/{job['job_id']}", {"error": error, "backtrace": "handler.run\n  at demo.py:88", **token})
            else:
                call("POST", f"/ack/{job['job_id']}", {"result": {"ok": True, "took": seconds}, **token})
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)


def reporter():
    """A slow job at a time, with progress, a checkpoint and a message."""
    name = f"demo-reports-{os.getpid()}"
    while not stopping.is_set():
        try:
            job = call("POST", "/fetch", {"queues": ["reports.monthly"], "worker_id": name, "hostname": "demo", "timeout": 2})
            if not job:
                continue
            pages = job["payload"].get("pages", 200)
            for page in range(1, pages + 1):
                time.sleep(0.25)
                progress = {"current": page, "total": pages, "message": f"Rendering page {page} of {pages}"}
                beat = {"jobs": {job["job_id"]: {"progress": progress, "checkpoint": {"page": page}}}}
                answer = call("POST", "/heartbeat", {"worker_id": name, **beat})
                if stopping.is_set() or answer["jobs"].get(job["job_id"], {}).get("status") == "cancel":
                    break
            call("POST", f"/ack/{job['job_id']}", {"result": {"pages": pages}, "lease_token": job.get("lease_token")})
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)


def set_the_stage():
    for queue, settings in {"crawl.pages": {"rounds": True}}.items():
        quietly("POST", f"/queues/{queue}/settings", settings)
    quietly("POST", "/queues/images.resize/concurrency", {"max": 12})
    quietly("POST", "/queues/emails.send/concurrency", {"max": 20})
    quietly("POST", "/queues/emails.send/throttle", {"rate": 600, "period": "1m"})
    for n in range(40):
        enqueue("sync.crm", {"account": n}, max_retries=1, tags={"tenant": random.choice(["acme", "globex"])})
    for n in range(6):
        enqueue("reports.monthly", {"month": f"2026-{n + 1:02}", "pages": 240, "customer": 9007199254740993 + n}, tags={"tenant": "acme"})
    for n in range(3):
        held = enqueue("payments.capture", {"order": 1000 + n, "cents": 1250000}, tags={"tenant": "globex"})
        quietly("POST", f"/jobs/{held}/hold", {"reason": "above 10,000: a person decides"})
    for n in range(12):
        enqueue("emails.send", {"to": f"user-{n}@example.com", "template": "reminder"}, scheduled_at=later(minutes=5 + 13 * n))
    enqueue("archive.nightly", {"keep_days": 30}, scheduled_at=later(hours=9), priority="low")
    quietly("POST", "/queues/archive.nightly/pause")
    enqueue("emails.send", {"html": HOSTILE, "to": HOSTILE}, tags={"note": HOSTILE[:60]}, scheduled_at=later(minutes=3))
    enqueue("archive.nightly", {"blob": "x" * 400_000, "rows": list(range(5000)), "big": 12345678901234567890123})
    quietly("POST", "/schedules", {"name": "month-end", "queue": "reports.monthly", "cron": "0 6 1 * *", "timezone": "Europe/Berlin", "payload": {"pages": 40}})
    quietly("POST", "/schedules", {"name": "heartbeat", "queue": "crawl.pages", "cron": "*/5 * * * *", "payload": {"url": "https://example.com"}})
    flow()
    other_namespace()
    if DIGEST.exists():
        call("PUT", "/plugins/digest?queues=demo.digest", raw=DIGEST.read_bytes(), kind="application/wasm")
        for seed in range(4):
            enqueue("demo.digest", {"generate_mb": 96, "seed": seed, "pause_ms": 300}, tags={"tenant": "acme"})
        enqueue("demo.digest", {"generate_mb": "many"}, max_retries=2)


def flow():
    """Thirty jobs that belong together: a chain, and a batch with its callback."""
    steps = [{"queue": "orders.steps", "payload": {"step": n}} for n in range(6)]
    call("POST", "/enqueue", {"queue": "orders.steps", "payload": {"order": 77}, "chain": {"steps": steps}})
    parts = [{"queue": "batch.part", "payload": {"part": n}} for n in range(24)]
    call("POST", "/enqueue/batch", {"jobs": parts, "batch": {"callback_queue": "batch.done", "callback_payload": {"of": "parts"}}})


def other_namespace():
    quietly("POST", "/namespaces", {"name": "acme"})
    for n in range(5):
        try:
            enqueue("acme.only", {"n": n}, namespace="acme")
        except urllib.error.HTTPError:
            # A key of one namespace cannot.
            return


def keep_busy():
    at = 0
    while not stopping.is_set():
        at += 1
        jobs = [{"queue": "emails.send", "payload": {"to": f"user-{random.randint(1, 900)}@example.com", "template": "welcome"}, "tags": {"tenant": random.choice(["acme", "globex", "initech"])}} for _ in range(random.randint(2, 6))]
        jobs += [{"queue": "images.resize", "payload": {"image": at, "width": 800}} for _ in range(random.randint(0, 2))]
        jobs += [{"queue": "crawl.pages", "payload": {"url": f"https://example.com/{at}"}} for _ in range(2)]
        if at % 4 == 0:
            jobs.append({"queue": "payments.capture", "payload": {"order": at}, "priority": "high", "max_retries": 2, "retry_base_delay": "30s"})
        if at % 10 == 0:
            jobs.append({"queue": "sync.crm", "payload": {"account": at}, "max_retries": 2, "retry_base_delay": "20s"})
        try:
            call("POST", "/enqueue/batch", {"jobs": jobs})
        except (urllib.error.URLError, OSError):
            pass
        stopping.wait(0.7)


def main():
    set_the_stage()
    threads = [threading.Thread(target=worker, args=(queue,), daemon=True) for queue in WORK]
    more = ["emails.send", "emails.send", "crawl.pages", "images.resize"]
    threads += [threading.Thread(target=worker, args=(queue,), daemon=True) for queue in more]
    threads += [threading.Thread(target=reporter, daemon=True), threading.Thread(target=keep_busy, daemon=True)]
    for thread in threads:
        thread.start()
    print(f"the demo runs on {URL}/ui/ until Ctrl-C", file=sys.stderr)
    try:
        stopping.wait(8 if "--once" in sys.argv else None)
    except KeyboardInterrupt:
        pass
    stopping.set()


if __name__ == "__main__":
    main()
