"""Teaches schemathesis about components, and sets the timeout of requests that would poll to zero."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    if path.endswith(("/fetch", "/fetch/batch")) and isinstance(case.body, dict):
        case.body["timeout"] = 0
    if path.endswith("/wait"):
        case.query = {"timeout": "0"}
    if path.endswith("/logs"):
        case.query = {name: value for name, value in (case.query or {}).items() if name != "follow"}


@schemathesis.serializer("application/wasm")
def wasm(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.deserializer("application/wasm")
def component(context, response):
    return response.content
