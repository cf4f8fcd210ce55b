#!/usr/bin/env python3
"""A canary: a new version of a plugin gets a share of the jobs, and is taken back or made active by how it does.

    make run                        # in one terminal: a server with the plugin digest
    python3 examples/canary.py      # in another

First a bad version, whose manifest asks for less memory than it needs: it is rolled back automatically. Its failures
are not charged to the jobs, which run again on the old version. Then a good one: it is promoted after ten attempts.
Both are made from the component of the server's plugin `digest`, under another name, so that nothing else is touched.

WINDLASS_URL is the server's address (default http://127.0.0.1:7070), WINDLASS_API_KEY its key if it has one, and
WINDLASS_CA_FILE the authority behind its certificate (PEM) if that is your own.
Needs Python 3.8 or newer.
"""

import base64
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

URL = os.environ.get("WINDLASS_URL", "http://127.0.0.1:7070").rstrip("/")
KEY = os.environ.get("WINDLASS_API_KEY")
TLS = ssl.create_default_context(cafile=os.environ.get("WINDLASS_CA_FILE"))
PLUGIN = QUEUE = "examples-canary"


def send(method, path, data=None, **headers):
    headers.update({"X-API-Key": KEY} if KEY else {})
    request = urllib.request.Request(f"{URL}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=120, context=TLS) as answer:
        return answer.read()


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    return json.loads(send(method, path, data, **{"Content-Type": "application/json"}))


def build(component, version):
    """Stands in for your next build: the same component with a custom section added, which gives it another digest."""
    return component + bytes([0, 3, 1, ord("v"), version])


def push(component, memory, activate):
    manifest = {"queues": [QUEUE], "limits": {"memory": memory, "concurrency": 4}}
    headers = {"Windlass-Manifest": base64.b64encode(json.dumps(manifest).encode()).decode()}
    return json.loads(send("PUT", f"/plugins/{PLUGIN}?activate={activate}", component, **headers))["version"]


def trial(version, jobs=40):
    """Tries a version on half of the attempts, with enough jobs to decide, and says what became of it."""
    rules = {"share": 50, "max_failure_rate": 0.2, "min_attempts": 5, "promote_after": 10}
    call("POST", f"/plugins/{PLUGIN}/canary", {"version": version, **rules})
    bodies = [{"queue": QUEUE, "payload": {"text": f"job {n}"}} for n in range(jobs)]
    ids = call("POST", "/enqueue/batch", {"jobs": bodies})["job_ids"]
    ended = [call("GET", f"/jobs/{job}/wait?timeout=60") for job in ids]
    completed = sum(job["state"] == "completed" for job in ended)
    on_canary = sum(job["plugin_version"] == version for job in ended)
    print(f"{completed} of {jobs} jobs completed, {on_canary} of them on the canary")
    last = call("GET", f"/plugins/{PLUGIN}")["history"][-1]
    print(f"{version[:12]}: {last['type']}, {last['detail']}")
    return completed == jobs and last["type"]


def main():
    component = send("GET", "/plugins/digest/component")
    old = push(build(component, 1), "64MiB", "true")
    print(f"{old[:12]}: active")
    bad = trial(push(build(component, 2), "64KiB", "false"))
    good = trial(push(build(component, 3), "64MiB", "false"))
    sys.exit((bad, good) != ("plugin.rolled_back", "plugin.promoted"))


try:
    main()
except urllib.error.HTTPError as error:
    sys.exit(f"{error.url}: {error.code} {error.read().decode(errors='replace')}")
except urllib.error.URLError as error:
    sys.exit(f"There is no server at {URL} ({error.reason}). Start one with `make run`, or set WINDLASS_URL.")
