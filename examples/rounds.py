#!/usr/bin/env python3
"""Rounds: a folder tree is walked level by level, one job per folder; a level starts when the one above has ended.

    make run                                  # in one terminal: a server
    python3 examples/rounds.py                # in another: walks the folder guest-sdk/wit
    python3 examples/rounds.py /some/folder   # or another one

A job lists one folder and starts a child for each folder in it; a child belongs to the next round. The server keeps
only a few counters per round, so the tree may be larger than memory. After a crash the walk resumes in the lowest round
that has not ended. This program enqueues the top folder and is the worker of the queue.

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
QUEUE = "examples.rounds"


def call(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"X-API-Key": KEY} if KEY else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=70, context=TLS) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def fresh_queue():
    """An empty queue that runs in rounds. What an earlier run of this example has left is deleted."""
    try:
        call("DELETE", f"/queues/{QUEUE}?confirm=true")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
    call("POST", f"/queues/{QUEUE}/settings", {"rounds": True})


def visit(folder):
    """Lists one folder: the result is the number of its files, the children are its folders."""
    below = sorted(Path(folder).iterdir())
    folders = [entry for entry in below if entry.is_dir() and not entry.is_symlink()]
    children = [{"queue": QUEUE, "payload": {"folder": str(entry)}} for entry in folders]
    return {"result": {"files": len(below) - len(folders)}, "children": children}


def main():
    top = sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent.parent / "guest-sdk/wit")
    fresh_queue()
    call("POST", "/enqueue", {"queue": QUEUE, "payload": {"folder": top}})
    while call("GET", f"/queues/{QUEUE}/rounds")["state"] != "completed":
        job = call("POST", "/fetch", {"queues": [QUEUE], "worker_id": "rounds.py", "timeout": 5})
        if job is None:
            continue
        folder = job["payload"]["folder"]
        try:
            found = visit(folder)
        except OSError as error:
            call("POST", f"/fail/{job['job_id']}", {"lease_token": job["lease_token"], "error": str(error)})
            continue
        call("POST", f"/ack/{job['job_id']}", {"lease_token": job["lease_token"], **found})
        files, folders = found["result"]["files"], len(found["children"])
        print(f"round {job['round']}: {os.path.relpath(folder, top)} has {files} files and {folders} folders")
    rounds = call("GET", f"/queues/{QUEUE}/rounds")["rounds"]
    print(f"completed: {', '.join(str(row['completed']) for row in rounds)} folders in {len(rounds)} rounds")


try:
    main()
except urllib.error.HTTPError as error:
    sys.exit(f"{error.url}: {error.code} {error.read().decode(errors='replace')}")
except urllib.error.URLError as error:
    sys.exit(f"There is no server at {URL} ({error.reason}). Start one with `make run`, or set WINDLASS_URL.")
