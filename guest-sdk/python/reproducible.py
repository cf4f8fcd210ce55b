"""Makes builds reproducible: the same source gives the same component.

A component starts from a snapshot of the interpreter's memory, and whatever the interpreter met while the plugin was imported stays in it: seeds,
times and numbers of files, the order in which a folder names them, and what lay in memory that was given back. componentize-py has no
option against that, so it is done from both sides:

- `library` is linked into the component, and runs before the interpreter does. It fixes the seed of hashes, serves sorted folders and
  files without times, and zeroes memory. `windlass/_still.py` ends its work when the plugin is imported; it costs a job nothing.
- `settle` goes over the finished component. It zeroes the stack, on which nobody stands any more, and four values that libraries took from
  the clock or from chance before any of our code ran.

What a module itself reads of the clock or of chance while it is imported is part of the plugin, and stays.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
#: The name by which componentize-py knows a library.
LIBRARY = "still.cpython-314-wasm32-wasi.so"
#: Where the seed of hashes stands in the library.
SEED = b"PYTHONHASHSEED\0\0" + b"0000000001"

#: The modules of componentize-py 0.25.1 in which values are found by their place: the same for every system.
PYTHON = "4f8eadd579e63d99a0634c9326a1263460dbacf7f823d80bfb10369779ac7e4e"
CLOCKS = "695da2abd472e891eef7d6f548a1aadf9994a324eaed1a60b836e764bd4fd596"

#: A gap of that many zeros is worth a data segment of its own.
GAP = re.compile(rb"\0{64,}")


class Span(NamedTuple):
    start: int
    end: int


def digest(folders: list[Path], *more: str) -> bytes:
    """Of all files below these folders."""
    whole = hashlib.sha256("\0".join(more).encode())
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix().encode()
            whole.update(b"%d %s %d " % (len(name), name, path.stat().st_size))
            whole.update(path.read_bytes())
    return whole.digest()


def library(source: bytes) -> bytes:
    """The library to link. Hashes get a seed that follows from the source: the same at each build, and not the same for every plugin."""
    code = (HERE / "still" / "still.wasm").read_bytes()
    seed = int.from_bytes(source[:4], "big") or 1
    assert code.count(SEED) == 1
    return code.replace(SEED, SEED[:-10] + b"%010d" % seed)


def settle(component: bytes, source: bytes) -> Optional[bytes]:
    """The component without what differs from build to build; none if it is not from the componentize-py that is known here."""
    modules = [Span(start, end) for kind, _, start, end in sections(component, 8, len(component)) if kind == 1]
    known = {hashlib.sha256(component[each.start : each.end]).hexdigest() for each in modules}
    if not {PYTHON, CLOCKS} <= known:
        return None
    main = modules[0]
    parts = {kind: (start, end) for kind, _, start, end in sections(component, main.start + 8, main.end)}
    values = exported(component, Span(*parts[6]), Span(*parts[7]))
    if values["__stack_pointer"] != values["__stack_high"]:
        return None
    memory = read_memory(component, Span(*parts[11]))
    zero(memory, values["__stack_low"], values["__stack_high"])
    random = hashlib.shake_256(source).digest(256)
    # Any value serves as the canary of the stack while nobody stands on it.
    canary = values["libc.so:memory_base"] + canary_offset(component, modules)
    memory[canary : canary + 4] = random[:4]
    # mimalloc seeds itself even if nobody uses it: a cookie and two keys, then the state of a ChaCha20 and what it gave last.
    python = values["libpython3.14.so:memory_base"]
    state = python + 0x2762E8
    assert memory[state : state + 16] == b"expand 32-byte k"
    memory[state - 12 : state] = random[4:16]
    memory[state + 16 : state + 48] = random[16:48]
    memory[state + 64 : state + 128] = random[48:112]
    # When mimalloc was started, and when the clock of the process was.
    zero(memory, python + 0x2F98F8, python + 0x2F9900)
    clocks = values["libwasi-emulated-process-clocks.so:memory_base"]
    zero(memory, clocks + 8, clocks + 24)
    return replaced(component, main, write_memory(memory))


def replaced(component: bytes, main: Span, data: bytes) -> bytes:
    """The component with another data section in its main module, which comes first."""
    module = bytearray(component[main.start : main.start + 8])
    for kind, at, start, end in sections(component, main.start + 8, main.end):
        module += section(kind, data if kind == 11 else component[start:end])
    for kind, at, start, _ in sections(component, 8, len(component)):
        if start == main.start:
            return component[:at] + section(kind, bytes(module)) + component[main.end :]
    raise AssertionError


def zero(memory: bytearray, start: int, end: int) -> None:
    memory[start:end] = bytes(end - start)


def read_memory(code: bytes, data: Span) -> bytearray:
    memory = bytearray()
    count, at = number(code, data.start)
    for _ in range(count):
        # An active segment, and `i32.const offset, end`.
        assert code[at] == 0 and code[at + 1] == 0x41
        offset, at = number(code, at + 2)
        assert code[at] == 0x0B
        size, at = number(code, at + 1)
        memory.extend(bytes(max(0, offset + size - len(memory))))
        memory[offset : offset + size] = code[at : at + size]
        at += size
    return memory


def write_memory(memory: bytearray) -> bytes:
    """As the section of a module: only where something is."""
    segments: list[Span] = []
    start = 0
    for gap in GAP.finditer(memory):
        if gap.start() > start:
            segments.append(Span(start, gap.start()))
        start = gap.end()
    if start < len(memory):
        segments.append(Span(start, len(memory)))
    made = bytearray(leb(len(segments)))
    for start, end in segments:
        made += b"\0\x41" + signed_leb(start) + b"\x0b" + leb(end - start) + memory[start:end]
    return bytes(made)


def exported(code: bytes, globals_: Span, exports: Span) -> dict[str, int]:
    """The values of exported globals, all of them `i32.const`."""
    found: list[int] = []
    count, at = number(code, globals_.start)
    for _ in range(count):
        assert code[at] == 0x7F and code[at + 2] == 0x41
        value, at = signed(code, at + 3)
        found.append(value)
        at += 1
    return {name: found[index] for name, kind, index in names(code, exports) if kind == 3}


def canary_offset(code: bytes, modules: list[Span]) -> int:
    """Where the C library keeps it, in its own memory. What it imports comes before its own globals."""
    for module in modules:
        parts = {kind: Span(start, end) for kind, _, start, end in sections(code, module.start + 8, module.end)}
        for name, kind, index in names(code, parts[7]) if 7 in parts else ():
            if name == "__stack_chk_guard" and kind == 3:
                _, at = number(code, parts[6].start)
                for _ in range(index - imported_globals(code, parts[2])):
                    _, at = signed(code, at + 3)
                    at += 1
                return signed(code, at + 3)[0]
    raise AssertionError("no library has __stack_chk_guard")


def imported_globals(code: bytes, imports: Span) -> int:
    found = 0
    count, at = number(code, imports.start)
    for _ in range(count):
        for _ in range(2):
            size, at = number(code, at)
            at += size
        kind, at = code[at], at + 1
        if kind == 0:
            _, at = number(code, at)
        elif kind == 3:
            found, at = found + 1, at + 2
        else:
            at += kind == 1  # a table says of what first
            limited, at = code[at] & 1, at + 1
            for _ in range(1 + limited):
                _, at = number(code, at)
    return found


def names(code: bytes, exports: Span) -> Iterator[tuple[str, int, int]]:
    count, at = number(code, exports.start)
    for _ in range(count):
        size, at = number(code, at)
        name = code[at : at + size].decode()
        kind = code[at + size]
        index, at = number(code, at + size + 1)
        yield name, kind, index


def sections(code: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Of each: what it is, where it begins, and where its content begins and ends."""
    while at < end:
        size, start = number(code, at + 1)
        yield code[at], at, start, start + size
        at = start + size


def section(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + leb(len(content)) + content


def number(code: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = code[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def signed(code: bytes, at: int) -> tuple[int, int]:
    start = at
    value, at = number(code, at)
    return (value - (1 << 7 * (at - start)) if code[at - 1] & 64 else value), at


def leb(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def signed_leb(value: int) -> bytes:
    """Of a number that is not negative: its highest bit must not look like a sign."""
    made = bytearray(leb(value))
    if made[-1] & 64:
        made[-1] |= 128
        made.append(0)
    return bytes(made)
