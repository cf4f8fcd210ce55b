"""Types a demonstration into two terminals and draws what they show as an animated SVG. scripts/record.sh calls it.

usage: record.py FOLDER FILE.svg      FOLDER has bin/ with the commands, and work/, where they run

The terminals are real, a pty with bash each; pyte interprets what they print. `demonstrate` is the demonstration; if
the job does not end as it should, it fails and no picture is written. `draw` turns the frames into SVG: each state of
each row is one element, visible from when it appeared until it changed. CSS animates them, without scripts, so that the
picture also moves in a README.
"""

import html
import os
import pty
import re
import select
import signal
import socket
import struct
import sys
import termios
import time
from fcntl import ioctl
from itertools import groupby

import pyte

COLUMNS = 100
TYPING_S = 0.035  # between two keys
FRAME_S = 0.1  # changes closer together are merged
LONGEST_PAUSE_S = 1.6  # longer pauses are cut to this
LAST_S = 5  # how long the end is shown before the recording repeats
MAX_BYTES = 150_000
DEADLINE_S = 60


class Failed(Exception):
    """The demonstration failed; the message has what it waited for."""


class Terminal:
    """A bash on a pty, and its screen."""

    def __init__(self, title, rows, environment, folder):
        self.title, self.rows = title, rows
        self.screen = pyte.Screen(COLUMNS, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.process, self.pty = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        ioctl(self.pty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def end(self):
        """bash passes the signal on to its jobs, and so to the server."""
        os.kill(self.process, signal.SIGHUP)
        os.close(self.pty)
        os.waitpid(self.process, 0)


class Stage:
    """The terminals, and the frames so far: pairs of a time and the contents of all rows."""

    def __init__(self, *terminals):
        self.terminals, self.active = terminals, terminals[0]
        self.frames = []

    def look(self):
        shown = []
        for terminal in self.terminals:
            cursor = terminal.screen.cursor
            for y in range(terminal.rows):
                cells = [cell(terminal.screen.buffer[y][x]) for x in range(COLUMNS)]
                if terminal is self.active and not cursor.hidden and cursor.y == y and cursor.x < COLUMNS:
                    cells[cursor.x] = (cells[cursor.x][0], "cursor")
                shown.append(runs(cells))
        if not self.frames or self.frames[-1][1] != shown:
            self.frames.append((time.monotonic(), shown))

    def play(self, seconds, until=None):
        """Records for this many seconds, or until a condition is true; returns False if it never was."""
        end = time.monotonic() + seconds
        looked = 0
        while time.monotonic() < end:
            readable, _, _ = select.select([terminal.pty for terminal in self.terminals], [], [], 0.02)
            for terminal in self.terminals:
                if terminal.pty in readable:
                    terminal.stream.feed(os.read(terminal.pty, 65536))
            if time.monotonic() - looked >= FRAME_S:
                looked = time.monotonic()
                self.look()
            if until and until():
                self.look()
                return True
        return until is None

    def wait(self, terminal, pattern):
        if not self.play(DEADLINE_S, lambda: re.search(pattern, terminal.text())):
            raise Failed(f"{pattern!r} did not appear:\n{terminal.text()}")

    def type(self, terminal, line):
        self.active = terminal
        self.play(0.5)
        for key in line:
            os.write(terminal.pty, key.encode())
            self.play(TYPING_S)
        self.play(0.3)
        os.write(terminal.pty, b"\r")


def cell(char):
    styles = ["bold"] if char.bold else []
    return (char.data, " ".join(styles if char.fg == "default" else [*styles, char.fg]))


def runs(cells):
    """Adjacent cells of one style together, without trailing blanks: (column, text, style)."""
    found, column = [], 0
    for style, group in groupby(cells, key=lambda cell: cell[1]):
        text = "".join(data for data, _ in group)
        if text.strip() or style == "cursor":
            blanks = 0 if style == "cursor" else len(text) - len(text.lstrip())
            found.append((column + blanks, text if style == "cursor" else text.strip(), style))
        column += len(text)
    return tuple(found)


def demonstrate(stage, server, client):
    stage.wait(server, r"^\$")
    stage.wait(client, r"^\$")
    stage.type(server, "windlass serve &")
    stage.wait(server, r"listening on[^$]*\$$")
    stage.type(client, "windlass plugin push digest digest.wasm --queues demo.digest")
    stage.wait(client, r"is active and serves demo.digest")
    command = "windlass enqueue demo.digest '{\"generate_mb\": 24, \"pause_ms\": 250}' --watch"
    stage.type(client, command + " | jq -c '.attempts[]'")
    stage.wait(client, r"step 7 of 24")
    stage.type(server, "kill -9 %1")
    stage.wait(server, r"Killed")
    stage.play(1.2)
    stage.type(server, "windlass serve &")
    stage.wait(client, r'"attempt":2.*\n\$$')
    stage.play(1)
    stage.type(client, "windlass job list --output json | jq -c '.jobs[] | {state, attempt, last_error}'")
    stage.wait(client, r'\{"state":"completed","attempt":2,"last_error":"the server stopped while this attempt ran"\}\n\$')
    stage.play(0.5)


# --- drawing ---

CELL_W, CELL_H, FONT = 8.4, 19, 14
MARGIN, TITLE_H, GAP = 14, 30, 10
STYLE = """
text{fill:#d6dbe3;white-space:pre;
font:%(FONT)spx ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace}
.title{fill:#8b95a5;font-size:12px}
.r{visibility:hidden;animation:%(LENGTH).2fs step-end infinite}
.bold{font-weight:bold}
.brightblack{fill:#8b95a5}
.green{fill:#7bd88f}
.red{fill:#ff7b72}
.brown,.yellow{fill:#e3b341}
.blue,.cyan{fill:#79c0ff}
.magenta{fill:#d2a8ff}
.cursor{fill:#d6dbe3}
@media (prefers-reduced-motion:reduce){.r{animation:none}.end{visibility:visible}}
"""


def draw(frames, terminals):
    times, length = pace([at for at, _ in frames])
    width = round(COLUMNS * CELL_W + 2 * MARGIN)
    body, css, tops, y = [], [], [], 0
    for terminal in terminals:
        height = TITLE_H + terminal.rows * CELL_H + MARGIN
        box = f'x=".5" y="{y + 0.5}" width="{width - 1}" height="{height - 1}" rx="8"'
        body.append(f'<rect {box} fill="#161b22" stroke="#3d444d"/>')
        body += [f'<circle cx="{MARGIN + 6 + 16 * n}" cy="{y + 16}" r="5" fill="#3d444d"/>' for n in range(3)]
        body.append(f'<text class="title" x="{width / 2}" y="{y + 20}" text-anchor="middle">{terminal.title}</text>')
        tops += [y + TITLE_H + row * CELL_H for row in range(terminal.rows)]
        y += height + GAP
    names = {}
    for row, top in enumerate(tops):
        for start, end, content in spans(frames, times, length, row):
            if (start, end) not in names:
                names[start, end] = name = f"k{len(names)}"
                css.append(keyframes(name, start / length, end / length))
            last = " end" if end == length else ""
            body.append(f'<g class="r {names[start, end]}{last}">{"".join(text(run, top) for run in content)}</g>')
    label = "Terminal recording: a job continues from its checkpoint after the server was killed"
    size = f'viewBox="0 0 {width} {y - GAP}" width="{width}" height="{y - GAP}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<title>{label}</title>",
        f"<style>{STYLE % {'FONT': FONT, 'LENGTH': length}}",
        *css,
        "</style>",
        *body,
        "</svg>\n",
    ])


def pace(seen):
    """The times of the frames in the picture, with long pauses cut, and its length; in seconds."""
    times = [0.0]
    for before, after in zip(seen, seen[1:]):
        times.append(round(times[-1] + min(after - before, LONGEST_PAUSE_S), 2))
    return times, times[-1] + LAST_S


def spans(frames, times, length, row):
    """What a row shows, and from when to when, without the times when it is empty."""
    shown = [(content[row], at) for (_, content), at in zip(frames, times)]
    changes = [next(group) for _, group in groupby(shown, key=lambda pair: pair[0])]
    ends = [at for _, at in changes[1:]] + [length]
    return [(at, end, content) for (content, at), end in zip(changes, ends) if content and end > at]


def keyframes(name, start, end):
    """The row is hidden by default, and a step holds until the next one."""
    hide = "" if end == 1 else f"{end:.3%}{{visibility:hidden}}"
    return f"@keyframes {name}{{{start:.3%}{{visibility:visible}}{hide}}}.{name}{{animation-name:{name}}}"


def text(run, top):
    column, content, style = run
    x, baseline = round(MARGIN + column * CELL_W, 1), round(top + CELL_H * 0.74, 1)
    if style == "cursor":
        return f'<rect class="cursor" x="{x}" y="{top}" width="{CELL_W}" height="{CELL_H - 2}"/>'
    kind = f' class="{style}"' if style else ""
    span = round(len(content) * CELL_W, 1)  # keeps the columns in place with any font
    return f'<text{kind} x="{x}" y="{baseline}" textLength="{span}">{html.escape(content, quote=False)}</text>'


# --- running ---


def port():
    """The port in the documentation, if it is free."""
    for wanted in (7070, 0):
        with socket.socket() as probe:
            # Ignores connections of an earlier recording that are still closing.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
                return probe.getsockname()[1]
            except OSError:
                continue


def main():
    folder, target = sys.argv[1:]
    address = f"127.0.0.1:{port()}"
    environment = {
        "PATH": f"{folder}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": folder,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PS1": "$ ",
        "WINDLASS_LISTEN": address,
        "WINDLASS_MAX_CONNECTIONS": "1000",  # so that the limits of this machine cause no warning
        "WINDLASS_URL": f"http://{address}",
    }
    # The prompt waits until a server in the background answers, so that it appears after the server's first lines.
    ready = 'while [ -n "$(jobs -r)" ] && ! curl -sfo /dev/null "$WINDLASS_URL/healthz"; do sleep 0.05; done; sleep 0.1'
    server = Terminal("server", 14, {**environment, "PROMPT_COMMAND": ready}, f"{folder}/work")
    client = Terminal("client", 14, environment, f"{folder}/work")
    stage = Stage(server, client)
    try:
        demonstrate(stage, server, client)
    except Failed as error:
        sys.exit(f"error: {error}")
    finally:
        client.end()
        server.end()
    picture = draw(stage.frames, stage.terminals)
    for private in (folder, os.path.expanduser("~"), socket.gethostname()):
        if re.search(rf"(?<![\w.-]){re.escape(private)}(?![\w-])", picture):
            sys.exit(f"error: the picture shows {private!r}, which is of this machine alone")
    if len(picture.encode()) > MAX_BYTES:
        sys.exit(f"error: the picture has {len(picture.encode())} bytes, and at most {MAX_BYTES} are allowed")
    with open(target, "w", encoding="utf-8") as file:
        file.write(picture)


main()
