#!/usr/bin/env python3
"""A cron schedule with a time zone: a job every Monday at nine in Berlin, summer and winter.

    make run                          # in one terminal: a server with a plugin for the queue demo.digest
    python3 examples/cron.py          # in another: makes the schedule, shows its times, runs it once, and deletes it
    python3 examples/cron.py --keep   # the same, and the schedule stays

On the command line: windlass schedule add weekly '0 9 * * 1' demo.digest '{"text": "hi"}' --timezone Europe/Berlin

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

URL = os.environ.get("WINDLASS_URL", "http://127.0.0.1:7070").rstrip("/")
KEY = os.environ.get("WINDLASS_API_KEY")
TLS = ssl.create_default_context(cafile=os.environ.get("WINDLASS_CA_FILE"))
NAME = "examples-weekly"


def call(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"X-API-Key": KEY} if KEY else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=70, context=TLS) as answer:
        return json.loads(answer.read())


def delete():
    try:
        call("DELETE", f"/schedules/{NAME}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise


def main():
    delete()
    call("POST", "/schedules", {
        "name": NAME,
        "queue": "demo.digest",
        "cron": "0 9 * * 1",
        "timezone": "Europe/Berlin",
        "payload": {"text": "monday"},
        "catch_up": "once",  # one job at the next start for all the times that passed while the server was down
        "overlap": "skip",  # no new job while the last one has not ended
    })
    # Forty Mondays, so that the clocks change among them: nine in Berlin is 08:00 UTC in winter, 07:00 UTC in summer.
    times = call("GET", f"/schedules/{NAME}/next?count=40")["next"]
    before = None
    for time in times:
        if before is None or time[11:16] != before[11:16]:
            print(f"{'from' if before else 'next'} {time}")
        before = time
    # A schedule can be run at any time; the regular times stay as they are.
    job = call("POST", f"/schedules/{NAME}/run", {})["job_id"]
    ended = call("GET", f"/jobs/{job}/wait?timeout=30")
    if "--keep" not in sys.argv:
        delete()
    print(f"{job}: {ended['state']}")
    sys.exit(ended["state"] != "completed")


try:
    main()
except urllib.error.HTTPError as error:
    sys.exit(f"{error.url}: {error.code} {error.read().decode(errors='replace')}")
except urllib.error.URLError as error:
    sys.exit(f"There is no server at {URL} ({error.reason}). Start one with `make run`, or set WINDLASS_URL.")
