#!/usr/bin/env python3
"""A fan-out with a join: a job starts many others, waits until all have ended, and reads their results.

    make run                                         # in one terminal: a server
    python3 examples/fan-out.py                      # in another
    python3 examples/fan-out.py README.md docs/*.md  # with files of your own

The parent starts one child per file; each child counts words; when all have ended, the parent runs again and adds up.
While it waits, the parent occupies no worker. Its children are stored in the same commit as its ack, so a crash starts
none of them twice. This program enqueues the parent and is the worker of both queues.

WINDLASS_URL is the server's address (default http://127.0.0.1:7070), WINDLASS_API_KEY its key if it has one, and
WINDLASS_CA_FILE the authority behind its certificate (PEM) if that is your own.
Needs Python 3.8 or newer.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

URL = os.environ.get("WINDLASS_URL", "http://127.0.0.1:7070").rstrip("/")
KEY = os.environ.get("WINDLASS_API_KEY")
TLS = ssl.create_default_context(cafile=os.environ.get("WINDLASS_CA_FILE"))
PARENT, CHILD = "examples.fan-out", "examples.fan-out.count"


def call(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"X-API-Key": KEY} if KEY else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=70, context=TLS) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def split(files):
    """The parent's first run: one child per file, then wait. A child that fails does not stop the others."""
    children = [{"queue": CHILD, "payload": {"file": file}, "max_attempts": 1} for file in files]
    return {"children": children, "wait": "children", "on_child_failure": "continue"}


def count(file):
    """A child: how it ends, and with what."""
    try:
        words = len(Path(file).read_text(encoding="utf-8").split())
    except (OSError, ValueError) as error:
        print(f"{file}: {error}")
        return "fail", {"error": str(error)}
    print(f"{file}: {words} words")
    return "ack", {"result": {"words": words}}


def join(parent):
    """The parent's second run: the results of its children, read page by page, since there may be a million."""
    words, failed, start = 0, 0, 0
    while start is not None:
        page = call("GET", f"/jobs/{parent}/children?from={start}&limit=1000")
        for child in page["children"]:
            words += child["result"]["words"] if child["state"] == "completed" else 0
            failed += child["state"] != "completed"
        start = page.get("next")
    return {"result": {"words": words, "failed": failed}}


def main():
    files = sys.argv[1:] or [os.path.relpath(file) for file in sorted(Path(__file__).parent.glob("*.*"))]
    parent = call("POST", "/enqueue", {"queue": PARENT, "payload": {"files": files}})["job_id"]
    print(f"enqueued {parent} for {len(files)} files")
    while call("GET", f"/jobs/{parent}")["state"] not in ("completed", "dead", "cancelled"):
        job = call("POST", "/fetch", {"queues": [PARENT, CHILD], "worker_id": "fan-out.py", "timeout": 5})
        if job is None:
            continue
        if job["queue"] == CHILD:
            end, report = count(job["payload"]["file"])
        else:
            end, report = "ack", split(job["payload"]["files"]) if job.get("children") is None else join(job["job_id"])
        call("POST", f"/{end}/{job['job_id']}", {"lease_token": job["lease_token"], **report})
    result = call("GET", f"/jobs/{parent}")["result"]
    print(f"{parent}: completed, {result['words']} words in {len(files)} files, {result['failed']} failed")


try:
    main()
except urllib.error.HTTPError as error:
    sys.exit(f"{error.url}: {error.code} {error.read().decode(errors='replace')}")
except urllib.error.URLError as error:
    sys.exit(f"There is no server at {URL} ({error.reason}). Start one with `make run`, or set WINDLASS_URL.")
