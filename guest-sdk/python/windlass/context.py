"""How a handler talks to the server."""

from __future__ import annotations

import time
from typing import Any, Iterator, NoReturn, Optional, Protocol, TypeVar

from . import children, convert
from .duration import Duration, millis, seconds
from .errors import Cancelled, Fatal, Waiting
from .job import LEVELS, ON_FAILURE, Cancel, Child, ChildCounts, ChildListed, Job, Progress, Recorded, one_of

T = TypeVar("T")


class Server(Protocol):
    """The interface between a handler and whoever runs it: the server in a component, a fake in a test."""

    def progress(self, progress: Progress) -> None: ...
    def checkpoint(self, schema: int, state: bytes) -> None: ...
    def cancelled(self) -> Optional[Cancel]: ...
    def log(self, level: str, message: str) -> None: ...
    def spawn(self, child: Child) -> int: ...
    def joined(self) -> Optional[ChildCounts]: ...
    def children(self, start: int) -> tuple[list[ChildListed], Optional[int]]: ...
    def child_result(self, ordinal: int) -> Optional[bytes]: ...
    def wait(self, on_failure: str, state: Optional[tuple[int, bytes]]) -> None: ...
    def put_record(self, key: str, value: bytes) -> None: ...
    def get_record(self, queue: str, key: str) -> Optional[Recorded]: ...
    def mark(self, queue: str, key: str, mark: Optional[str]) -> None: ...
    def config(self, name: str) -> Optional[str]: ...
    def secret(self, name: str) -> str: ...


class Context:
    """How a handler talks to the server. It belongs to one attempt."""

    def __init__(self, job: Job, saved: Optional[tuple[int, bytes]], server: Server) -> None:
        #: The job this attempt is for.
        self.job = job
        #: The version of your state format. Raise it when you change what you save.
        self.schema = 1
        self._saved = saved
        self._server = server
        self._last_save = time.monotonic()

    def progress(self, current: int, total: Optional[int] = None, message: Optional[str] = None) -> None:
        """Reports how far the work has come: `current` of `total`. Never fails, never waits for the disk."""
        self._server.progress(Progress(message=message, current=current, total=total))

    def report(self, message: Optional[str] = None, **event: Any) -> None:
        """Reports a progress event in its full form: phase, level, detail, and percent or current, total, unit, weight."""
        self._server.progress(Progress(message=message, **event))

    def checkpoint(self, state: Any) -> None:
        """Saves state for the next attempt: as JSON, or unchanged if it is bytes. When it returns, the state is on disk,
        together with the children spawned before. That takes about half a millisecond."""
        self._server.checkpoint(self.schema, _bytes(state, "state"))
        self._last_save = time.monotonic()

    def checkpoint_every(self, period: Duration, state: Any) -> bool:
        """Saves state if the last save was at least `period` ago, and returns whether it did. For loops whose steps are short."""
        if time.monotonic() - self._last_save < seconds(period):
            return False
        self.checkpoint(state)
        return True

    def state(self, kind: type[T] = Any) -> Optional[T]:  # type: ignore[assignment]
        """The state that an earlier attempt saved, as a `kind` (a dataclass, `list[int]`, `bytes`, …), or None if there
        is none. State of another schema is an error."""
        if self._saved is None:
            return None
        schema, state = self._saved
        if schema != self.schema:
            raise RuntimeError(f"the saved state has schema {schema}, and this handler reads {self.schema}")
        if kind is bytes:
            return state  # type: ignore[return-value]
        try:
            return convert.loads(state, kind)
        except convert.Mismatch as error:
            raise RuntimeError(f"the saved state cannot be read: {error}") from None

    def state_raw(self) -> Optional[tuple[int, bytes]]:
        """The schema of the saved state and its bytes, to migrate them by hand."""
        return self._saved

    def cancelled(self) -> Optional[Cancel]:
        """The server's request to stop, if there is one. The call is cheap: make it between any two steps."""
        return self._server.cancelled()

    def check_cancelled(self) -> None:
        """Raises Cancelled if the server has asked the attempt to stop."""
        cancel = self.cancelled()
        if cancel is not None:
            raise Cancelled(cancel.reason)

    def spawn(
        self,
        queue: str,
        payload: Any,
        *,
        priority: Optional[str] = None,
        delay: Optional[Duration] = None,
        max_attempts: Optional[int] = None,
        unique_key: Optional[str] = None,
        unique_period: Optional[Duration] = None,
        tags: Optional[dict[str, str]] = None,
        scope: Optional[str] = None,
    ) -> int:
        """Starts another job, atomically with the next checkpoint or the result; if the attempt fails before then, the job is
        never started. Returns its ordinal among the children of this job."""
        return self._server.spawn(
            Child(
                queue=queue,
                payload=_bytes(payload, "payload of the child"),
                priority=priority,
                delay_ms=None if delay is None else millis(delay),
                max_attempts=max_attempts,
                unique_key=unique_key,
                unique_period_ms=None if unique_period is None else millis(unique_period),
                tags=dict(tags or {}),
                scope=scope,
            )
        )

    def wait_for_children(self, state: Any = None, *, on_failure: str = "fail") -> NoReturn:
        """Ends this attempt, by raising Waiting: the job runs again, from this state, when all of its children have ended.
        Without a state, the last checkpoint remains. Children, state and wait are committed atomically. A waiting job occupies
        neither memory nor a slot. `on_failure` is what happens when a child is dead or cancelled: the job can `fail` too,
        `cancel` its other children, or `continue`."""
        saved = None if state is None else (self.schema, _bytes(state, "state"))
        self._server.wait(one_of("on_failure", on_failure, ON_FAILURE), saved)
        raise Waiting()

    def joined(self) -> Optional[ChildCounts]:
        """How the children ended, or None if this attempt does not follow a wait for them."""
        return self._server.joined()

    def children(self) -> Iterator[children.ChildJob]:
        """The children, in the order they were spawned. They are read from the server a page at a time."""
        return children.read(self._server)

    def put_record(self, key: str, value: Any) -> None:
        """Stores a value under a key of the job's own queue, for other jobs to read: as JSON, or unchanged if it is bytes. It is
        committed with the next checkpoint or the result, and discarded if the attempt fails before then. A value has at most
        64 KiB. An existing record with this key is replaced."""
        self._server.put_record(key, _bytes(value, "record"))

    def get_record(self, queue: str, key: str, kind: Any = Any) -> Optional[Recorded]:
        """The committed record under a key of a queue, its value as a `kind` (a dataclass, `bytes`, …), or None. The plugin must
        serve the queue, or a gate must connect it to the job's own queue."""
        found = self._server.get_record(queue, key)
        if found is None or kind is bytes:
            return found
        try:
            return Recorded(convert.loads(found.value, kind), found.mark)
        except convert.Mismatch as error:
            raise Fatal(f"the record `{key}` of `{queue}` is not what was expected: {error}") from None

    def mark(self, queue: str, key: str, mark: Optional[str]) -> None:
        """Sets the mark on a record, or removes it if `mark` is None. It is committed in the same way as a record. Marked
        records can be listed, and their jobs rebuilt by a sweep."""
        self._server.mark(queue, key, mark)

    def log(self, level: str, message: str) -> None:
        """Writes to the job's log. The output of `print` and `logging` is logged too."""
        self._server.log(one_of("level", level, LEVELS), message)

    def config(self, name: str, default: Optional[str] = None) -> Optional[str]:
        """A setting of the plugin."""
        found = self._server.config(name)
        return default if found is None else found

    def secret(self, name: str) -> str:
        """A secret that the plugin was granted. If it was not, the error says what to grant."""
        return self._server.secret(name)


def _bytes(value: Any, what: str) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    try:
        return convert.dumps(value)
    except (TypeError, ValueError) as error:
        raise Fatal(f"the {what} cannot be written as JSON: {error}") from None
