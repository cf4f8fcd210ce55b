"""The running figures of one column. All of them can be saved in the middle of the table."""

import math
from dataclasses import dataclass
from typing import Any, Optional

LONGEST = 80


@dataclass
class Column:
    name: str
    filled: int = 0
    empty: int = 0
    #: Of the cells that are numbers: how many, their mean, and the sum of squared distances from it (Welford's way, which does not
    #: lose digits over long columns).
    numbers: int = 0
    mean: float = 0.0
    spread: float = 0.0
    least: Optional[float] = None
    most: Optional[float] = None
    #: Of the cells as text: the first and the last in order.
    first: Optional[str] = None
    last: Optional[str] = None

    def add(self, cell: str) -> None:
        cell = cell.strip()
        if not cell:
            self.empty += 1
            return
        self.filled += 1
        text = cell[:LONGEST]
        self.first = text if self.first is None else min(self.first, text)
        self.last = text if self.last is None else max(self.last, text)
        try:
            value = float(cell)
        except ValueError:
            return
        if not math.isfinite(value):
            return
        self.numbers += 1
        step = value - self.mean
        self.mean += step / self.numbers
        self.spread += step * (value - self.mean)
        self.least = value if self.least is None else min(self.least, value)
        self.most = value if self.most is None else max(self.most, value)

    def figures(self) -> dict[str, Any]:
        told: dict[str, Any] = {"name": self.name, "filled": self.filled, "empty": self.empty, "numbers": self.numbers}
        if self.numbers and self.numbers == self.filled:
            deviation = math.sqrt(self.spread / (self.numbers - 1)) if self.numbers > 1 else 0.0
            told |= {"sum": tidy(self.mean * self.numbers), "mean": tidy(self.mean), "deviation": tidy(deviation),
                     "least": self.least, "most": self.most}
        elif self.filled:
            told |= {"first": self.first, "last": self.last}
        return told


def tidy(value: float) -> float:
    """Twelve digits: what lies behind is the noise of adding up."""
    return float(f"{value:.12g}")
