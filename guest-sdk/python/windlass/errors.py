"""Why a handler failed, and whether and when it is retried. Any other exception is retried with the job's backoff."""

from __future__ import annotations

from .duration import Duration, seconds


class Fatal(Exception):
    """A failure that would recur in every attempt: the job is dead at once."""


class RetryAfter(Exception):
    """A failure that is retried after this time: `raise RetryAfter("30s", "the mail server is busy")`."""

    def __init__(self, delay: Duration, message: str = "to be tried again later") -> None:
        super().__init__(message)
        self.delay = seconds(delay)


class Waiting(BaseException):
    """Not a failure: the job runs again when its children have ended. `except Exception` does not catch it."""

    def __init__(self) -> None:
        super().__init__("waits for its children")


class Cancelled(BaseException):
    """Not a failure: the handler stopped because it was asked to. Like `KeyboardInterrupt`, it is not caught by `except
    Exception`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stopped on request: {reason}")
        self.reason = reason
