"""Makes a report of a CSV: figures for every column, totals by group, and a bar chart as SVG.

The rows are read in steps. After each, the running figures are saved about once a second, with the place in the text where the next
step begins, so a later attempt reads no row twice; between two steps it stops when asked.
"""

from dataclasses import dataclass, field
from typing import Optional

import windlass

from chart import bar_chart
from figures import Column
from table import Reader

ROWS_PER_STEP = 2000
MOST_GROUPS = 10_000


@dataclass
class Order:
    """What to report on."""

    #: The table itself. Its first row names the columns.
    csv: str
    title: str = "Report"
    #: The column whose values make the groups of the chart. Without it, there is no chart.
    group_by: Optional[str] = None
    #: The column that is added up in each group. Without it, rows are counted.
    sum: Optional[str] = None
    delimiter: str = ","
    #: How many groups the chart shows; the rest is one bar.
    top: int = 10
    #: Save at most this often, in milliseconds.
    checkpoint_ms: int = 1000


@dataclass
class Standing:
    """What a checkpoint holds."""

    #: Where the next row begins, in characters.
    offset: int
    rows: int = 0
    #: Rows that had more or fewer cells than the first, and were left out.
    bad_rows: int = 0
    columns: list[Column] = field(default_factory=list)
    groups: dict[str, float] = field(default_factory=dict)


@windlass.handler("*")
def report(ctx: windlass.Context, order: Order) -> dict:
    reader = Reader(order.csv, order.delimiter)
    names = reader.header()
    group, amount = column(names, order.group_by, "group_by"), column(names, order.sum, "sum")
    if not 1 <= order.top <= 50:
        raise windlass.Fatal("top must be from 1 to 50")
    standing = ctx.state(Standing) or Standing(reader.offset, columns=[Column(name) for name in names])
    reader.offset = standing.offset
    if standing.rows:
        print(f"going on after row {standing.rows}")

    while not reader.at_end():
        if ctx.cancelled():
            ctx.checkpoint(standing)
            ctx.check_cancelled()
        for cells in reader.rows(ROWS_PER_STEP):
            if len(cells) != len(names):
                standing.bad_rows += 1
                continue
            standing.rows += 1
            for into, cell in zip(standing.columns, cells):
                into.add(cell)
            if group is not None:
                add(standing.groups, cells[group], cells[amount] if amount is not None else None)
        standing.offset = reader.offset
        ctx.report(f"{standing.rows} rows", phase="read", current=reader.offset, total=len(order.csv), unit="characters")
        ctx.checkpoint_every(order.checkpoint_ms / 1000, standing)

    if standing.bad_rows:
        ctx.log("warn", f"{standing.bad_rows} rows had not {len(names)} cells, and were left out")
    return summary(order, standing, group is not None)


def column(names: list[str], name: Optional[str], field: str) -> Optional[int]:
    if name is None:
        return None
    if name not in names:
        raise windlass.Fatal(f"{field}: there is no column `{name}`; there are {', '.join(names)}")
    return names.index(name)


def add(groups: dict[str, float], name: str, cell: Optional[str]) -> None:
    if name not in groups and len(groups) >= MOST_GROUPS:
        raise windlass.Fatal(f"more than {MOST_GROUPS} groups; choose a column with fewer values")
    try:
        value = 1 if cell is None else float(cell or 0)
    except ValueError:
        value = 0  # what is no number adds nothing; the column's figures tell how many there were
    groups[name] = groups.get(name, 0) + value


def summary(order: Order, standing: Standing, chart: bool) -> dict:
    result = {
        "title": order.title,
        "rows": standing.rows,
        "bad_rows": standing.bad_rows,
        "columns": [each.figures() for each in standing.columns],
    }
    if chart:
        ranked = sorted(standing.groups.items(), key=lambda each: (-each[1], each[0]))
        shown, rest = ranked[: order.top], ranked[order.top :]
        result["groups"] = [{"name": name, "value": value} for name, value in shown]
        if rest:
            result["groups"].append({"name": f"{len(rest)} more", "value": sum(value for _, value in rest)})
        unit = f"sum of {order.sum}" if order.sum else "rows"
        result["svg"] = bar_chart(order.title, f"{unit} by {order.group_by}", [(each["name"], each["value"]) for each in result["groups"]])
    return result
