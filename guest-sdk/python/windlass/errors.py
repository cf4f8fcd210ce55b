"""Why a handler did not succeed, and what should happen next. Any other exception is tried again, with the job's backoff."""

from __future__ import annotations

from .duration import Duration, seconds


class Fatal(Exception):
    """Failed, and would fail again: the job is dead at once."""


class RetryAfter(Exception):
    """Failed; try again after this time: `raise RetryAfter("30s", "the mail server is busy")`."""

    def __init__(self, delay: Duration, message: str = "to be tried again later") -> None:
        super().__init__(message)
        self.delay = seconds(delay)


class Waiting(BaseException):
    """Not a failure: the job goes on when its children have ended. It passes by `except Exception`, as Cancelled does."""

    def __init__(self) -> None:
        super().__init__("waits for its children")


class Cancelled(BaseException):
    """Not a failure: the handler was asked to stop, and did. Like `KeyboardInterrupt`, it passes by `except Exception`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stopped on request: {reason}")
        self.reason = reason
