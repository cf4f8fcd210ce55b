"""Outbound HTTP: `http.get("https://…").json()`. It goes through `urllib.request`, which works by itself, too.

In a component both go out through wasi:http, to the hosts the plugin was granted; natively, over the network as usual.
A response of any status is returned as a Response; an exception means that there was no response.
"""

from __future__ import annotations

import json as _json
import urllib.error
import urllib.request
from typing import Any, Optional

from .duration import Duration, seconds


class Error(OSError):
    """There was no response: refused, unreachable, too late, or not granted. The message says which."""


class Response:
    def __init__(self, status: int, headers: Any, body: bytes, url: str) -> None:
        self.status = status
        #: By name, whatever the case: `response.headers["content-type"]`.
        self.headers = headers
        self.body = body
        #: The address of the response, after redirects.
        self.url = url

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def text(self) -> str:
        return self.body.decode(self.headers.get_content_charset("utf-8"), "replace")

    def json(self) -> Any:
        return _json.loads(self.body)


def request(
    method: str,
    url: str,
    *,
    headers: Optional[dict[str, str]] = None,
    body: Optional[bytes | str] = None,
    json: Any = None,
    timeout: Duration = "30s",
) -> Response:
    """Sends a request and waits for the whole response. `json` is sent as JSON, instead of `body`."""
    headers = dict(headers or {})
    if json is not None:
        body = _json.dumps(json, ensure_ascii=False)
        headers.setdefault("content-type", "application/json")
    data = body.encode() if isinstance(body, str) else body
    try:
        outgoing = urllib.request.Request(url, data=data, headers=headers, method=method.upper())
        with urllib.request.urlopen(outgoing, timeout=seconds(timeout)) as answer:
            return Response(answer.status, answer.headers, answer.read(), answer.url)
    except urllib.error.HTTPError as answer:
        with answer:
            return Response(answer.code, answer.headers, answer.read(), answer.url)
    except urllib.error.URLError as error:
        raise Error(f"{method.upper()} {url}: {error.reason}") from None
    except (OSError, ValueError) as error:
        raise Error(f"{method.upper()} {url}: {error}") from None


def get(url: str, **options: Any) -> Response:
    return request("GET", url, **options)


def post(url: str, body: Optional[bytes | str] = None, **options: Any) -> Response:
    return request("POST", url, body=body, **options)


def put(url: str, body: Optional[bytes | str] = None, **options: Any) -> Response:
    return request("PUT", url, body=body, **options)


def delete(url: str, **options: Any) -> Response:
    return request("DELETE", url, **options)
