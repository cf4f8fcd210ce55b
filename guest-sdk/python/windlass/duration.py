"""Spans of time, as users write them: `"500ms"`, `"1s"`, `"5m"`, `"2h"`, a `timedelta`, or seconds as a number."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Union

Duration = Union[str, int, float, timedelta]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(span: Duration) -> float:
    """The span in seconds. A negative or unreadable one is a ValueError."""
    if isinstance(span, timedelta):
        found = span.total_seconds()
    elif isinstance(span, str):
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", span.strip())
        if match is None:
            raise ValueError(f"`{span}` is no span of time; it should be like 500ms, 1s, 5m, 2h or 1d")
        found = float(match[1]) * _UNITS[match[2]]
    else:
        found = float(span)
    if not found >= 0:
        raise ValueError(f"a span of time cannot be {span}")
    return found


def millis(span: Duration) -> int:
    return round(seconds(span) * 1000)
