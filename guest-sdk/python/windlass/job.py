"""What a handler is told, and what it tells: its job, a request to stop, progress, children. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

#: How serious a log line or a progress event is.
LEVELS = ("debug", "info", "warn", "error")
#: Which jobs go first in a queue.
PRIORITIES = ("critical", "high", "normal")
#: What becomes of a job that waits when one of its children dies or is cancelled.
ON_FAILURE = ("fail", "cancel", "continue")
#: Why an attempt is asked to stop.
REASONS = ("user", "timeout", "shutdown", "swap")


@dataclass
class Job:
    """One job, as one attempt sees it."""

    id: str
    queue: str
    #: What the producer sent, byte for byte.
    payload: bytes
    #: Counted from 1.
    attempt: int = 1
    #: How many attempts may fail. `attempt` can be higher: one that the server handed back is not counted.
    max_attempts: int = 3
    tags: dict[str, str] = field(default_factory=dict)
    #: What the job is about, as `type:id`.
    scope: Optional[str] = None
    #: Milliseconds since 1970.
    created_at_ms: int = 0
    #: When this attempt will be stopped, in milliseconds since 1970.
    deadline_ms: Optional[int] = None


@dataclass
class Cancel:
    """A request to stop."""

    #: `user`, `timeout`, `shutdown` or `swap`.
    reason: str
    #: Seconds, after which the attempt is stopped dead.
    time_left: float


@dataclass
class Progress:
    """One thing to tell the watchers of a job."""

    message: Optional[str] = None
    #: The part of the work that is under way.
    phase: Optional[str] = None
    level: str = "info"
    #: More, for those who open the event. By convention JSON.
    detail: Optional[str] = None
    #: A share of the whole, from 0 to 100.
    percent: Optional[float] = None
    #: Or a count: so many of so many.
    current: Optional[int] = None
    total: Optional[int] = None
    #: What is counted: `rows`, `bytes`.
    unit: Optional[str] = None
    #: How much this phase counts among the job's phases.
    weight: Optional[float] = None

    def __post_init__(self) -> None:
        one_of("level", self.level, LEVELS)


@dataclass
class Child:
    """A job that a handler starts. What is left out is decided by the queue's own settings."""

    queue: str
    payload: bytes
    priority: Optional[str] = None
    #: Milliseconds it waits before it may start.
    delay_ms: Optional[int] = None
    max_attempts: Optional[int] = None
    #: Not started if a job with this key exists already.
    unique_key: Optional[str] = None
    unique_period_ms: Optional[int] = None
    tags: dict[str, str] = field(default_factory=dict)
    scope: Optional[str] = None

    def __post_init__(self) -> None:
        if self.priority is not None:
            one_of("priority", self.priority, PRIORITIES)


@dataclass
class Recorded:
    """What a job has recorded under a key, and the mark that somebody has put on it."""

    value: Any
    mark: Optional[str] = None


@dataclass
class ChildCounts:
    """How many children a job has had, over all attempts, and how they ended."""

    total: int
    completed: int
    dead: int
    cancelled: int


@dataclass
class ChildTold:
    """A child as it is told on a page."""

    ordinal: int
    id: str
    queue: str
    state: str
    #: None when there is none, or when it is too large for a page.
    result: Optional[bytes]
    result_bytes: int
    error: Optional[str]


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} is `{value}`; it can be {', '.join(choices)}")
    return value
