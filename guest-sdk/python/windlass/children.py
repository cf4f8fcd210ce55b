"""The children of a job, which it reads after it has waited for them: page by page, never all at once."""

from __future__ import annotations

from typing import Any, Iterator, Optional, TypeVar

from . import convert
from .errors import Fatal
from .job import ChildListed

T = TypeVar("T")


class ChildJob:
    """A job that this one has started."""

    def __init__(self, listed: ChildListed, server: Any) -> None:
        #: As returned by `spawn`.
        self.ordinal = listed.ordinal
        self.id = listed.id
        self.queue = listed.queue
        #: `completed`, `dead` or `cancelled`; `open` if the job has not waited for it.
        self.state = listed.state
        #: Its last error, if there was one.
        self.error = listed.error
        #: The size of its result in bytes.
        self.result_bytes = listed.result_bytes
        self._result = listed.result
        self._server = server

    def result(self, kind: type[T] = Any) -> T:  # type: ignore[assignment]
        """The child's result, as a `kind` (a dataclass, `list[int]`, `bytes`, …). For a child that did not complete, raises an
        error that says why. A large result is read from the server at each call."""
        if self.state != "completed":
            why = f": {self.error}" if self.error else ""
            raise RuntimeError(f"child {self.ordinal} has no result, it is {self.state}{why}")
        found = self._result
        if found is None and self.result_bytes > 0:
            found = self._server.child_result(self.ordinal)
        if kind is bytes:
            return found or b""  # type: ignore[return-value]
        try:
            # No result is read as null.
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
        for listed in page:
            yield ChildJob(listed, server)
