#!/usr/bin/env python3
"""A worker in plain Python: fetches jobs over HTTP, runs them, reports progress, and acks or fails them.

    make run                                            # in one terminal: a server
    export WINDLASS_API_KEY=$(cat windlass-data/admin.key)  # in another: its key
    python3 examples/worker.py counting                 # and a worker on the queue `counting` until Ctrl-C
    windlass enqueue counting '{"to": 3}' --watch       # in a third: something to do

Put your own handler in place of `count_up`. Backoff, retries, uniqueness, limits and dead letters are the server's
business. With --once the worker ends after one job.

WINDLASS_URL is the server's address (default http://127.0.0.1:7070), WINDLASS_API_KEY its key if it has one, and
WINDLASS_CA_FILE the authority behind its certificate (PEM) if that is your own.
Needs Python 3.8 or newer, and no packages.
"""

import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request

URL = os.environ.get("WINDLASS_URL", "http://127.0.0.1:7070").rstrip("/")
KEY = os.environ.get("WINDLASS_API_KEY")
TLS = ssl.create_default_context(cafile=os.environ.get("WINDLASS_CA_FILE"))
WORKER = f"{socket.gethostname()}-{os.getpid()}"
HEARTBEAT_SECONDS = 5


class Cancelled(Exception):
    """Somebody has cancelled the job, or it is no longer ours."""


class Refused(Exception):
    """The server understood the request and will not do it; sending it again would not help."""


def call(path, body, timeout=70):
    """One POST. On 429, 503 or without a connection nothing was done, so the request is sent again."""
    headers = {"Content-Type": "application/json", **({"X-API-Key": KEY} if KEY else {})}
    while True:
        request = urllib.request.Request(f"{URL}/api/v1{path}", json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=TLS) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                raise Refused(f"{path}: {error.code} {error.read().decode(errors='replace')}") from None
            time.sleep(float(error.headers.get("Retry-After", 1)))
        except OSError as error:
            print(f"{error}; trying again", file=sys.stderr)
            time.sleep(1)


class Job:
    """What a handler sees of its job: the payload, the last checkpoint, and a way to report."""

    def __init__(self, fetched):
        self.id, self.token = fetched["job_id"], fetched["lease_token"]
        self.payload, self.checkpoint = fetched["payload"], fetched["checkpoint"]
        self.cancelled, self.ended = threading.Event(), threading.Event()
        self.unsent = {}

    def report(self, current, total, message="", checkpoint=None):
        """Sent with the next heartbeat. Raises `Cancelled` to stop the handler."""
        unsent = {"progress": {"current": current, "total": total, "message": message}}
        if checkpoint is not None:
            unsent["checkpoint"] = checkpoint
        self.unsent = unsent
        if self.cancelled.is_set():
            raise Cancelled()

    def heartbeat(self):
        unsent, self.unsent = self.unsent, {}
        answer = call("/heartbeat", {"worker_id": WORKER, "jobs": {self.id: {"lease_token": self.token, **unsent}}})
        if answer["jobs"][self.id]["status"] == "cancel":
            self.cancelled.set()

    def keep_alive(self):
        while not self.ended.wait(HEARTBEAT_SECONDS):
            self.heartbeat()


def work(job, handler):
    """Runs the handler on a job and says how it ended."""
    threading.Thread(target=job.keep_alive, daemon=True).start()
    try:
        result = handler(job)
        job.heartbeat()
        path, body = f"/ack/{job.id}", {"result": result}
    except Cancelled:
        path, body = f"/fail/{job.id}", {"error": "cancelled"}
    except KeyboardInterrupt:
        path, body = f"/fail/{job.id}", {"error": "worker_shutdown"}  # goes back to the queue and counts as no failure
    except Exception as error:  # whatever the handler raises is the job's error
        path, body = f"/fail/{job.id}", {"error": f"{type(error).__name__}: {error}"}
    finally:
        job.ended.set()
    try:
        answer = call(path, {**body, "lease_token": job.token})
        print(f"{job.id}: {answer['status'] if 'error' in body else 'completed'}", flush=True)
    except Refused as error:  # for example 410: the lease has lapsed and another worker has the job
        print(f"{job.id}: {error}", file=sys.stderr)
    return body.get("error") != "worker_shutdown"


def count_up(job):
    """The example handler: counts, and resumes from its checkpoint after an interruption."""
    if "fail" in job.payload:
        raise ValueError(job.payload["fail"])
    total = job.payload.get("to", 10)
    for n in range(job.checkpoint or 0, total):
        job.report(n + 1, total, f"counted to {n + 1}", checkpoint=n + 1)
    return {"counted": total}


def main():
    once = "--once" in sys.argv
    queues = [name for name in sys.argv[1:] if name != "--once"] or ["counting"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        urllib.request.urlopen(f"{URL}/healthz", timeout=10, context=TLS).close()
        print(f"{WORKER} works on {', '.join(queues)}", file=sys.stderr)
        going = True
        while going:
            fetched = call("/fetch", {"queues": queues, "worker_id": WORKER, "hostname": socket.gethostname()})
            if fetched:
                going = work(Job(fetched), count_up) and not once
    except Refused as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"There is no server at {URL} ({error}). Start one with `make run`, or set WINDLASS_URL.")
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
