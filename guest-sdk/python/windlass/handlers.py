"""From a function to a handler: which one serves which queue, and how its payload and result are typed."""

from __future__ import annotations

import inspect
import typing
from typing import Any, Callable, TypeVar

from . import convert
from .context import Context, _bytes
from .errors import Fatal

F = TypeVar("F", bound=Callable[..., Any])

#: The queue name of the handler for all queues without one of their own.
ANY = "*"

registered: dict[str, "Handler"] = {}


def handler(*queues: str) -> Callable[[F], F]:
    """Registers a function for these queues: `@handler("emails.send")`; `"*"` serves every other queue.

    The function takes the context and, optionally, the payload: converted to the type of its annotation, plain JSON values
    without one, unchanged if the annotation is `bytes`. The result is written as JSON, unless it is bytes.
    """
    if not queues or any(not isinstance(queue, str) for queue in queues):
        raise TypeError('name the queues a handler serves: @windlass.handler("emails.send"), or "*" for all others')

    def register(function: F) -> F:
        made = Handler(function)
        for queue in queues:
            if queue in registered:
                names = f"{registered[queue].function.__qualname__} and {function.__qualname__}"
                raise ValueError(f"two handlers for the queue `{queue}`: {names}")
            registered[queue] = made
        return function

    return register


def check() -> None:
    """Says what is wrong with the handlers, once the plugin has been imported."""
    if not registered:
        raise TypeError('no handler: put @windlass.handler("queue") before the function that does the work')
    for each in registered.values():
        try:
            convert.prepare(each.kind())
        except NameError as error:
            raise TypeError(str(error)) from None


def find(queue: str) -> "Handler":
    found = registered.get(queue) or registered.get(ANY)
    if found is None:
        raise Fatal(f"this plugin has no handler for the queue `{queue}`")
    return found


class Handler:
    def __init__(self, function: Callable[..., Any]) -> None:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is async; a handler is a plain function")
        self.function = function
        self._kind: Any = _UNKNOWN

    def kind(self) -> Any:
        """The type of the payload; _NOTHING if the function takes none. Annotations are looked at when they are needed,
        since they may name what is defined further down."""
        if self._kind is _UNKNOWN:
            try:
                parameters = list(inspect.signature(self.function).parameters.values())
                hints = typing.get_type_hints(self.function)
            except NameError as error:
                raise TypeError(f"the annotations of {self.function.__qualname__} cannot be understood: {error}") from None
            if not 1 <= len(parameters) <= 2:
                raise TypeError(f"{self.function.__qualname__} should take the context, or the context and the payload")
            self._kind = hints.get(parameters[1].name, Any) if len(parameters) == 2 else _NOTHING
        return self._kind

    def run(self, ctx: Context) -> bytes:
        kind = self.kind()
        if kind is _NOTHING:
            return _bytes(self.function(ctx), "result")
        if kind is bytes:
            payload: Any = ctx.job.payload
        else:
            try:
                payload = convert.loads(ctx.job.payload, kind)
            except convert.Mismatch as error:
                # The same bytes would not fit in the next attempt either.
                raise Fatal(f"the payload is not what this handler takes: {error}") from None
        return _bytes(self.function(ctx, payload), "result")


_UNKNOWN = object()
_NOTHING = object()
