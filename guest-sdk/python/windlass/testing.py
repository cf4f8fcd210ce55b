"""A stand-in for the server, to test handlers natively, without wasm.

    fake = Fake()
    assert fake.run(double, 21) == 42

Every `run` is one more attempt of the same job: it gets the state that the one before saved. So a crash is tested by
`fail_checkpoints_after`, and a second `run`.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

from . import convert
from .context import Context, _bytes
from .errors import Fatal
from .handlers import Handler
from .job import REASONS, Cancel, Child, Job, Progress, one_of


class Fake:
    """A fake server with one job."""

    def __init__(
        self,
        *,
        queue: str = "test",
        tags: Optional[dict[str, str]] = None,
        scope: Optional[str] = None,
        config: Optional[dict[str, str]] = None,
        secrets: Optional[dict[str, str]] = None,
    ) -> None:
        self._job = dict(id="job_test", queue=queue, tags=dict(tags or {}), scope=scope)
        self._config = dict(config or {})
        self._secrets = dict(secrets or {})
        self._attempt = 0
        self._saved: Optional[tuple[int, bytes]] = None
        self._spawned: list[Child] = []
        self._cancel: Optional[list[Any]] = None
        self._checkpoints_left: Optional[int] = None
        #: The progress events of all attempts.
        self.progress: list[Progress] = []
        #: The log of all attempts, as (level, message).
        self.log: list[tuple[str, str]] = []
        #: How many checkpoints were saved.
        self.saves = 0
        #: The children that were really started: committed with a checkpoint or a result.
        self.children: list[Child] = []

    def cancel_after(self, looks: int, reason: str = "user") -> None:
        """Asks the handler to stop when it has looked this many times; 0 is at its first look."""
        self._cancel = [looks, one_of("reason", reason, REASONS)]

    def fail_checkpoints_after(self, checkpoints: int) -> None:
        """Lets this many checkpoints succeed and refuses those after: as good as a crash."""
        self._checkpoints_left = checkpoints

    def resume(self) -> None:
        """Takes both back, as a new attempt would find it."""
        self._cancel = None
        self._checkpoints_left = None

    def run(self, handler: Callable[..., Any], payload: Any = None) -> Any:
        """Runs a handler as the next attempt, through JSON both ways as the server would. Bytes stay bytes."""
        self._attempt += 1
        self._spawned = []
        job = Job(payload=_bytes(payload, "payload"), attempt=self._attempt, **self._job)  # type: ignore[arg-type]
        output = Handler(handler).run(Context(job, self._saved, _Link(self)))
        self.children += self._spawned
        try:
            return json.loads(output)
        except ValueError:
            return output

    def state(self, kind: Any = Any) -> Any:
        """The state saved last."""
        if self._saved is None:
            return None
        return self._saved[1] if kind is bytes else convert.loads(self._saved[1], kind)


class _Link:
    """The methods of Server, apart from what a test calls."""

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

    def config(self, name: str) -> Optional[str]:
        return self._fake._config.get(name)

    def secret(self, name: str) -> str:
        if name not in self._fake._secrets:
            raise Fatal(f"this plugin may not read the secret `{name}`")
        return self._fake._secrets[name]
