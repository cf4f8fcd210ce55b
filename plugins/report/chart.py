"""A bar chart as SVG, with nothing but text."""

from html import escape

WIDTH, BAR, GAP, LEFT, RIGHT, TOP = 720, 22, 8, 180, 90, 64


def bar_chart(title: str, subtitle: str, bars: list[tuple[str, float]]) -> str:
    height = TOP + len(bars) * (BAR + GAP) + GAP
    room = WIDTH - LEFT - RIGHT
    largest = max((abs(value) for _, value in bars), default=0) or 1
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="16" y="28" font-size="18" font-weight="600">{text(title, 70)}</text>',
        f'<text x="16" y="48" fill="#666">{text(subtitle, 100)}</text>',
    ]
    for place, (name, value) in enumerate(bars):
        y = TOP + place * (BAR + GAP)
        middle = y + BAR / 2 + 4
        length = room * abs(value) / largest
        colour = "#2f6f9f" if value >= 0 else "#b5483a"
        lines += [
            f'<text x="{LEFT - 8}" y="{middle:g}" text-anchor="end">{text(name, 26)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="3" fill="{colour}"><title>{text(name, 200)}: {value:g}</title></rect>',
            f'<text x="{LEFT + length + 6:.1f}" y="{middle:g}" fill="#333">{value:,.6g}</text>',
        ]
    return "\n".join([*lines, "</svg>"])


def text(value: str, longest: int) -> str:
    short = value if len(value) <= longest else value[: longest - 1] + "…"
    # XML has no way to write the other control characters.
    return escape("".join(letter for letter in short if letter >= " " or letter in "\t\n"))
