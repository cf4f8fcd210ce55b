"""What a handler receives and sends: its job, requests to stop, progress, children, records. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

#: The severity of a log line or a progress event.
LEVELS = ("debug", "info", "warn", "error")
#: The order in which a queue's pending jobs run.
PRIORITIES = ("critical", "high", "normal", "low")
#: What happens to a waiting job when one of its children is dead or cancelled.
ON_FAILURE = ("fail", "cancel", "continue")
#: Why an attempt is asked to stop.
REASONS = ("user", "timeout", "shutdown", "swap")


@dataclass
class Job:
    """A job, as seen by one attempt."""

    id: str
    queue: str
    #: What the producer sent, byte for byte.
    payload: bytes
    #: Counted from 1.
    attempt: int = 1
    #: How many attempts may fail. `attempt` can be higher: an attempt that the server handed back does not count.
    max_attempts: int = 3
    tags: dict[str, str] = field(default_factory=dict)
    #: What the job is about, as `type:id`.
    scope: Optional[str] = None
    #: The round this job is in, if its queue has rounds.
    round: Optional[int] = None
    #: When the job was enqueued, in milliseconds since the Unix epoch.
    created_at_ms: int = 0
    #: When this attempt times out, in milliseconds since the Unix epoch.
    deadline_ms: Optional[int] = None


@dataclass
class Cancel:
    """A request to stop."""

    #: `user`, `timeout`, `shutdown` or `swap`.
    reason: str
    #: Seconds until the server ends the attempt by force.
    time_left: float


@dataclass
class Progress:
    """A progress event."""

    message: Optional[str] = None
    #: The current phase of the work.
    phase: Optional[str] = None
    level: str = "info"
    #: Further details. By convention, JSON.
    detail: Optional[str] = None
    #: A percentage, from 0 to 100.
    percent: Optional[float] = None
    #: Or a count: `current` of `total`.
    current: Optional[int] = None
    total: Optional[int] = None
    #: What is counted: `rows`, `bytes`.
    unit: Optional[str] = None
    #: The weight of this phase among the job's phases.
    weight: Optional[float] = None

    def __post_init__(self) -> None:
        one_of("level", self.level, LEVELS)


@dataclass
class Child:
    """A job to start. Anything absent is decided by the settings of its queue."""

    queue: str
    payload: bytes
    priority: Optional[str] = None
    #: Milliseconds it waits before it may start.
    delay_ms: Optional[int] = None
    max_attempts: Optional[int] = None
    #: A key that only one job at a time may hold. If another job holds it, this one is not started.
    unique_key: Optional[str] = None
    unique_period_ms: Optional[int] = None
    tags: dict[str, str] = field(default_factory=dict)
    scope: Optional[str] = None

    def __post_init__(self) -> None:
        if self.priority is not None:
            one_of("priority", self.priority, PRIORITIES)


@dataclass
class Recorded:
    """A record: what a job has stored under a key of its queue, and the mark on it."""

    value: Any
    mark: Optional[str] = None


@dataclass
class ChildCounts:
    """How many children a job has had across all attempts, by the state in which they ended."""

    total: int
    completed: int
    dead: int
    cancelled: int


@dataclass
class ChildListed:
    """A child as the server describes it on a page."""

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
