"""Makes `urllib.request` send through wasi:http. Only in a component that was built with `http = true`."""

from __future__ import annotations

import io
import urllib.request
import urllib.response
from email.message import Message
from http.client import responses
from typing import Any, Optional

from componentize_py_types import Err, Ok
from wit_world.imports import outgoing_handler, streams
from wit_world.imports import wasi_http_types as wit

#: The host sets these itself, and refuses them from a guest.
_NOT_OURS = {"host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings"}
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}
_WRITE = 4096


class WasiHandler(urllib.request.AbstractHTTPHandler):
    handler_order = 100  # before urllib's own, which would open a socket

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def http_open(self, request: urllib.request.Request) -> Any:
        return self._send(wit.Scheme_Http(), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        return self._send(wit.Scheme_Https(), request)

    def _send(self, scheme: Any, request: urllib.request.Request) -> Any:
        headers = [
            (name.lower(), value.encode("latin-1"))
            for name, value in {**request.unredirected_hdrs, **request.headers}.items()
            if name.lower() not in _NOT_OURS
        ]
        try:
            outgoing = wit.OutgoingRequest(wit.Fields.from_list(headers))
        except Err:
            raise urllib.error.URLError("a header of the request is not allowed") from None
        method = request.get_method()
        known = getattr(wit, f"Method_{method.capitalize()}") if method in _METHODS else None
        try:
            outgoing.set_method(known() if known else wit.Method_Other(method))
            outgoing.set_scheme(scheme)
            outgoing.set_authority(request.host)
            outgoing.set_path_with_query(request.selector)
        except Err:
            raise urllib.error.URLError("the address or the method is not valid") from None
        body = outgoing.body()
        try:
            future = outgoing_handler.handle(outgoing, _options(request.timeout))
            _write(body, request.data)
            answer = _wait(future)
        except Err as error:
            raise urllib.error.URLError(_words(error.value)) from None
        return _response(answer, request.full_url)


def _options(timeout: Any) -> Optional[Any]:
    if not isinstance(timeout, (int, float)):
        return None
    options = wit.RequestOptions()
    span = int(timeout * 1_000_000_000)
    options.set_connect_timeout(span)
    options.set_first_byte_timeout(span)
    options.set_between_bytes_timeout(span)
    return options


def _write(body: Any, data: Any) -> None:
    chunks = [] if data is None else [data] if isinstance(data, (bytes, bytearray, memoryview)) else data
    try:
        with body.write() as stream:
            for chunk in chunks:
                view = memoryview(chunk)
                for start in range(0, len(view), _WRITE):
                    stream.blocking_write_and_flush(bytes(view[start : start + _WRITE]))
    except Err as error:
        # The other side may answer without reading all of it; what it says tells more than that it stopped.
        if not isinstance(error.value, streams.StreamError_Closed):
            raise urllib.error.URLError(_words(error.value)) from None
        return
    wit.OutgoingBody.finish(body, None)


def _wait(future: Any) -> Any:
    with future.subscribe() as ready:
        ready.block()
    answer = future.get()
    if isinstance(answer, Ok):
        answer = answer.value
    if isinstance(answer, Ok):
        return answer.value
    raise Err(answer.value if isinstance(answer, Err) else None)


def _response(answer: Any, url: str) -> Any:
    headers = Message()
    for name, value in answer.headers().entries():
        headers[name] = value.decode("latin-1")
    response = urllib.response.addinfourl(io.BufferedReader(_Body(answer.consume())), headers, url, answer.status())
    response.msg = responses.get(answer.status(), "")  # type: ignore[attr-defined]
    return response


class _Body(io.RawIOBase):
    """The body as it comes in."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._stream = body.stream()

    def close(self) -> None:
        # In this order: to drop a body before its stream is a trap.
        if not self.closed:
            self._stream.__exit__(None, None, None)
            self._body.__exit__(None, None, None)
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            try:
                part = self._stream.blocking_read(len(buffer))
            except Err as error:
                if isinstance(error.value, streams.StreamError_Closed):
                    return 0
                raise OSError(_words(error.value)) from None
            if part:
                buffer[: len(part)] = part
                return len(part)


def _words(error: Any) -> str:
    """What the server says, as a person would."""
    if isinstance(error, streams.StreamError_LastOperationFailed):
        return error.value.to_debug_string()
    name = type(error).__name__.removeprefix("ErrorCode_")
    if name == "HttpRequestDenied":
        return "the plugin may not send requests there"
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
    value = getattr(error, "value", None)
    return f"{words}: {value}" if value is not None else words


urllib.request.install_opener(urllib.request.build_opener(WasiHandler()))
