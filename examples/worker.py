#!/usr/bin/env python3
"""A Windlass worker in plain Python: fetches jobs over HTTP, works on them, says how it went. Needs nothing but Python 3.8.

    WINDLASS_URL=http://127.0.0.1:7070 python3 examples/worker.py counting

Write your own handler in place of `count_up`. Backoff, retries, uniqueness, limits and dead letters are the server's business.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

URL = os.environ.get("WINDLASS_URL", "http://127.0.0.1:7070").rstrip("/") + "/api/v1"
KEY = os.environ.get("WINDLASS_API_KEY")
WORKER = f"{socket.gethostname()}-{os.getpid()}"
HEARTBEAT_SECONDS = 5


class Cancelled(Exception):
    """The server wants this job stopped."""


def call(path, body, timeout=70):
    """One POST. Nothing was done when the server says 429 or 503 or is not there: then it is sent again."""
    headers = {"Content-Type": "application/json", **({"X-API-Key": KEY} if KEY else {})}
    while True:
        request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                raise RuntimeError(f"{path}: {error.code} {error.read().decode(errors='replace')}") from None
            time.sleep(float(error.headers.get("Retry-After", 1)))
        except urllib.error.URLError as error:
            print(f"{error.reason}; trying again", file=sys.stderr)
            time.sleep(1)


class Job:
    """What a handler sees of its job: the payload, where it stopped last time, and how to report."""

    def __init__(self, fetched):
        self.id, self.token = fetched["job_id"], fetched["lease_token"]
        self.payload, self.checkpoint = fetched["payload"], fetched["checkpoint"]
        self.cancelled = threading.Event()
        self.done = threading.Event()
        self.news = {}

    def report(self, current, total, message="", checkpoint=None):
        """Told with the next heartbeat. Stops the handler when somebody has cancelled the job."""
        self.news = {"progress": {"current": current, "total": total, "message": message}}
        if checkpoint is not None:
            self.news["checkpoint"] = checkpoint
        if self.cancelled.is_set():
            raise Cancelled()

    def beat(self):
        news, self.news = self.news, {}
        answer = call("/heartbeat", {"worker_id": WORKER, "jobs": {self.id: {"lease_token": self.token, **news}}})
        if answer["jobs"][self.id]["status"] == "cancel":
            self.cancelled.set()

    def keep_alive(self):
        while not self.done.wait(HEARTBEAT_SECONDS):
            self.beat()


def work(job, handler):
    heart = threading.Thread(target=job.keep_alive, daemon=True)
    heart.start()
    try:
        result = handler(job)
        job.beat()
        path, body = f"/ack/{job.id}", {"result": result}
    except Cancelled:
        path, body = f"/fail/{job.id}", {"error": "cancelled"}
    except KeyboardInterrupt:
        path, body = f"/fail/{job.id}", {"error": "worker_shutdown"}  # handed back, and charged to nobody
    except Exception as error:  # whatever the handler raises is the job's error
        path, body = f"/fail/{job.id}", {"error": f"{type(error).__name__}: {error}"}
    finally:
        job.done.set()
    call(path, {**body, "lease_token": job.token})


def count_up(job):
    """The example handler: counts, and goes on from its checkpoint when it was cut off."""
    if "fail" in job.payload:
        raise ValueError(job.payload["fail"])
    total = job.payload.get("to", 10)
    for n in range(job.checkpoint or 0, total):
        job.report(n + 1, total, f"counted to {n + 1}", checkpoint=n + 1)
    return {"counted": total}


def main():
    queues = sys.argv[1:] or ["counting"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"{WORKER} works on {', '.join(queues)}", file=sys.stderr)
    try:
        while True:
            fetched = call("/fetch", {"queues": queues, "worker_id": WORKER, "hostname": socket.gethostname()})
            if fetched:
                work(Job(fetched), count_up)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
