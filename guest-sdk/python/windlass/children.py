"""The children of a job, as it reads them after it has waited for them: page by page, never all at once."""

from __future__ import annotations

from typing import Any, Iterator, Optional, TypeVar

from . import convert
from .errors import Fatal
from .job import ChildTold

T = TypeVar("T")


class ChildJob:
    """A job that this one has started."""

    def __init__(self, told: ChildTold, server: Any) -> None:
        #: As `spawn` gave it.
        self.ordinal = told.ordinal
        self.id = told.id
        self.queue = told.queue
        #: `completed`, `dead` or `cancelled`; `open` if nobody has waited for it.
        self.state = told.state
        #: Its last error, when it had one.
        self.error = told.error
        #: How many bytes it gave back.
        self.result_bytes = told.result_bytes
        self._result = told.result
        self._server = server

    def result(self, kind: type[T] = Any) -> T:  # type: ignore[assignment]
        """What it gave back, as a `kind` (a dataclass, `list[int]`, `bytes`, …). A child that did not complete is an error
        that says why. A large result is read from the server now, and not kept."""
        if self.state != "completed":
            why = f": {self.error}" if self.error else ""
            raise RuntimeError(f"child {self.ordinal} has no result, it is {self.state}{why}")
        found = self._result
        if found is None and self.result_bytes > 0:
            found = self._server.child_result(self.ordinal)
        if kind is bytes:
            return found or b""  # type: ignore[return-value]
        try:
            # Nothing given back reads as null does.
            return convert.loads(found or b"null", kind)
        except convert.Mismatch as error:
            raise Fatal(f"the result of child {self.ordinal} is not what was expected: {error}") from None

    def __repr__(self) -> str:
        return f"ChildJob(ordinal={self.ordinal}, queue={self.queue!r}, state={self.state!r})"


def read(server: Any) -> Iterator[ChildJob]:
    """All children, in the order they were spawned. At most one page of them is in memory."""
    start: Optional[int] = 0
    while start is not None:
        page, start = server.children(start)
        for told in page:
            yield ChildJob(told, server)
