"""Write handlers for the Windlass job server in Python.

    import windlass

    @windlass.handler("orders.total")
    def total(ctx, order: Order) -> int:
        ...
"""

from .children import ChildJob
from .context import Context
from .errors import Cancelled, Fatal, RetryAfter, Waiting
from .handlers import handler
from .job import Cancel, Child, ChildCounts, Job, Progress, Recorded

__all__ = [
    "Cancel",
    "Cancelled",
    "Child",
    "ChildCounts",
    "ChildJob",
    "Context",
    "Fatal",
    "Job",
    "Progress",
    "Recorded",
    "RetryAfter",
    "Waiting",
    "handler",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # It is not imported here, because it would make every component larger; and in a component there is no importing later.
    if name == "http":
        raise AttributeError("write `import windlass.http` at the top of the file; and http = true under [build] in windlass.toml")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
