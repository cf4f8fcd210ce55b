"""Write handlers for the Windlass job server in Python.

    import windlass

    @windlass.handler("orders.total")
    def total(ctx, order: Order) -> int:
        ...
"""

from .context import Context
from .errors import Cancelled, Fatal, RetryAfter
from .handlers import handler
from .job import Cancel, Child, Job, Progress

__all__ = ["Cancel", "Cancelled", "Child", "Context", "Fatal", "Job", "Progress", "RetryAfter", "handler"]
__version__ = "0.1.0"
