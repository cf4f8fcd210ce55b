"""A stand-in for the server, to test handlers natively, without wasm.

    fake = Fake()
    assert fake.run(double, 21) == 42

Every `run` is another attempt of the same job and starts from the state that the previous one saved. To test a crash, call
`fail_checkpoints_after` and `run` again.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

from . import convert
from .context import Context, _bytes
from .errors import Fatal, Waiting
from .handlers import Handler
from .job import REASONS, Cancel, Child, ChildCounts, ChildListed, Job, Progress, Recorded, one_of


class Fake:
    """A fake server with one job."""

    def __init__(
        self,
        *,
        queue: str = "test",
        tags: Optional[dict[str, str]] = None,
        scope: Optional[str] = None,
        round: Optional[int] = None,
        config: Optional[dict[str, str]] = None,
        secrets: Optional[dict[str, str]] = None,
    ) -> None:
        self._job = dict(id="job_test", queue=queue, tags=dict(tags or {}), scope=scope, round=round)
        self._config = dict(config or {})
        self._secrets = dict(secrets or {})
        self._attempt = 0
        self._saved: Optional[tuple[int, bytes]] = None
        self._spawned: list[Child] = []
        self._cancel: Optional[list[Any]] = None
        self._checkpoints_left: Optional[int] = None
        self._records: dict[tuple[str, str], Recorded] = {}
        self._noted: list[tuple[str, str, Any, bool]] = []
        self._ended: dict[int, Any] = {}
        self._wait: Optional[tuple[str, Optional[tuple[int, bytes]]]] = None
        self._waiting: Optional[str] = None
        self._joined = False
        #: The progress events of all attempts.
        self.progress: list[Progress] = []
        #: The log of all attempts, as (level, message).
        self.log: list[tuple[str, str]] = []
        #: How many checkpoints were saved.
        self.saves = 0
        #: The children that were committed, with a checkpoint, a result or a wait.
        self.children: list[Child] = []

    def cancel_after(self, checks: int, reason: str = "user") -> None:
        """Asks the handler to stop after it has checked this many times; 0 is at its first check."""
        self._cancel = [checks, one_of("reason", reason, REASONS)]

    def fail_checkpoints_after(self, checkpoints: int) -> None:
        """Lets this many checkpoints succeed and refuses all later ones, to simulate a crash."""
        self._checkpoints_left = checkpoints

    def resume(self) -> None:
        """Undoes `cancel_after` and `fail_checkpoints_after`, for the next attempt."""
        self._cancel = None
        self._checkpoints_left = None

    def child_completed(self, ordinal: int, result: Any = None) -> None:
        """Makes a child complete with this result. Call it before the attempt that follows a wait."""
        self._ended[ordinal] = _bytes(result, "result")

    def child_died(self, ordinal: int, error: str) -> None:
        """Makes a child dead with this error."""
        self._ended[ordinal] = RuntimeError(error)

    def put_record(self, queue: str, key: str, value: Any) -> None:
        """Stores a record under a key of a queue, as another job would have."""
        self._records[queue, key] = Recorded(_bytes(value, "record"))

    def get_record(self, queue: str, key: str, kind: Any = Any) -> Optional[Recorded]:
        """The committed record under a key of a queue, whether stored by the handler or by the test."""
        found = self._records.get((queue, key))
        if found is None or kind is bytes:
            return found
        return Recorded(convert.loads(found.value, kind), found.mark)

    def _commit_notes(self) -> None:
        for queue, key, noted, is_mark in self._noted:
            if not is_mark:
                self._records[queue, key] = Recorded(noted)
            elif (queue, key) in self._records:
                self._records[queue, key].mark = noted
        self._noted = []

    def _join(self) -> None:
        """Decides, as the server would, whether a waiting job runs again."""
        if self._waiting is None:
            return
        for ordinal in range(len(self.children)):
            if ordinal not in self._ended:
                raise Fatal(f"child {ordinal} has not ended; say how with child_completed or child_died")
        if self._waiting == "fail" and any(isinstance(end, Exception) for end in self._ended.values()):
            raise Fatal("a child failed")
        self._waiting, self._joined = None, True

    def run(self, handler: Callable[..., Any], payload: Any = None) -> Any:
        """Runs a handler as the next attempt. As on the server, payload and result pass through JSON, unless they are bytes.
        Raises Waiting if the handler waits for its children."""
        self._join()
        self._attempt += 1
        self._spawned = []
        self._noted = []
        self._wait = None
        job = Job(payload=_bytes(payload, "payload"), attempt=self._attempt, **self._job)  # type: ignore[arg-type]
        try:
            result = Handler(handler).run(Context(job, self._saved, _Link(self)))
        except Waiting:
            result = b""
        self.children += self._spawned
        self._commit_notes()
        if self._wait is not None:
            self._waiting, saved = self._wait
            self._saved = saved or self._saved
            raise Waiting()
        try:
            return json.loads(result)
        except ValueError:
            return result

    def state(self, kind: Any = Any) -> Any:
        """The last saved state."""
        if self._saved is None:
            return None
        return self._saved[1] if kind is bytes else convert.loads(self._saved[1], kind)


class _Link:
    """The methods of Server, separate from those that a test calls."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake

    def progress(self, progress: Progress) -> None:
        self._fake.progress.append(progress)

    def checkpoint(self, schema: int, state: bytes) -> None:
        fake = self._fake
        if fake._checkpoints_left is not None:
            if fake._checkpoints_left == 0:
                raise RuntimeError("the checkpoint was not saved: the test said so")
            fake._checkpoints_left -= 1
        fake.saves += 1
        fake._saved = (schema, state)
        fake.children += fake._spawned
        fake._spawned = []
        fake._commit_notes()

    def cancelled(self) -> Optional[Cancel]:
        request = self._fake._cancel
        if request is None:
            return None
        if request[0] > 0:
            request[0] -= 1
            return None
        return Cancel(reason=request[1], time_left=10.0)

    def log(self, level: str, message: str) -> None:
        self._fake.log.append((level, message))

    def spawn(self, child: Child) -> int:
        self._fake._spawned.append(child)
        return len(self._fake.children) + len(self._fake._spawned) - 1

    def joined(self) -> Optional[ChildCounts]:
        if not self._fake._joined:
            return None
        total = len(self._fake.children)
        dead = sum(isinstance(end, Exception) for end in self._fake._ended.values())
        return ChildCounts(total, total - dead, dead, 0)

    def children(self, start: int) -> tuple[list[ChildListed], Optional[int]]:
        # Two at a time, so that a test of three sees more than one page.
        end = min(start + 2, len(self._fake.children))
        return [self._listed(each) for each in range(start, end)], end if end < len(self._fake.children) else None

    def _listed(self, ordinal: int) -> ChildListed:
        end = self._fake._ended.get(ordinal)
        state = "open" if end is None else "dead" if isinstance(end, Exception) else "completed"
        result = end if isinstance(end, bytes) else None
        size = len(result or b"")
        # As on the server, a large one is not on the page.
        shown = result if size <= 64 * 1024 else None
        error = str(end) if isinstance(end, Exception) else None
        return ChildListed(ordinal, f"job_test_{ordinal}", self._fake.children[ordinal].queue, state, shown, size, error)

    def child_result(self, ordinal: int) -> Optional[bytes]:
        end = self._fake._ended.get(ordinal)
        return end if isinstance(end, bytes) else None

    def wait(self, on_failure: str, state: Optional[tuple[int, bytes]]) -> None:
        self._fake._wait = (on_failure, state)

    def put_record(self, key: str, value: bytes) -> None:
        if not 1 <= len(key.encode()) <= 1024 or len(value) > 64 * 1024:
            raise Fatal("a key has 1 to 1024 bytes, and a value at most 64 KiB")
        self._fake._noted.append((self._fake._job["queue"], key, value, False))

    def get_record(self, queue: str, key: str) -> Optional[Recorded]:
        found = self._fake._records.get((queue, key))
        return found and Recorded(found.value, found.mark)

    def mark(self, queue: str, key: str, mark: Optional[str]) -> None:
        self._fake._noted.append((queue, key, mark, True))

    def config(self, name: str) -> Optional[str]:
        return self._fake._config.get(name)

    def secret(self, name: str) -> str:
        if name not in self._fake._secrets:
            raise Fatal(f"this plugin may not read the secret `{name}`")
        return self._fake._secrets[name]
