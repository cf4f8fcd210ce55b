"""Makes a component of a plugin folder.

usage: build.py FOLDER OUT.wasm               the plugin as a component
       build.py --runtime FOLDER OUT.wasm     the component that `windlass dev` runs its sources in
       build.py --sources FOLDER OUT.json     those sources; checked, unless WINDLASS_BUILD_CHECK=0

Run by the Python of a virtual environment with requirements.txt installed. `windlass plugin build` and plugins/build.sh do that; by hand:

    python3 -m venv tools && tools/bin/pip install --require-hashes -r requirements.txt && tools/bin/python build.py my-plugin my-plugin.wasm

WINDLASS_BUILD_ENTRY is the plugin's file, app.py unless set. WINDLASS_BUILD_HTTP=1 lets it send HTTP requests. A requirements.txt
in the folder is installed beside the tools, with the digests that lock.py describes: pure Python packages only, there is no machine
code in a component.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator

import lock
import reproducible

SDK = Path(__file__).resolve().parent

APP = """\
import collections.abc, random, sys, weakref
import windlass._still
import windlass._wasm
{http}
import {module}
from windlass._wasm import Run
windlass._wasm.ready(sys.modules["{module}"].__file__.rpartition("/")[0])
windlass._still.finish("/0/{library}")
"""
RUNTIME = """\
import windlass._wasm
{http}
import windlass._dev
from windlass._dev import Run
windlass._dev.prepare({before}, {after})
"""
#: Imports a plugin natively. The arguments are where to look, and the module.
CHECK = """\
import os, sys, traceback
*places, module = sys.argv[1:]
sys.path[:1] = places
try:
    import windlass.handlers
    __import__(module)
    windlass.handlers.check()
except BaseException as error:
    trace = traceback.TracebackException.from_exception(error)
    trace.stack[:] = [frame for frame in trace.stack if frame.filename != "<string>" and not frame.filename.startswith("<frozen ")]
    told = "".join(trace.format()).replace(os.getcwd() + os.sep, "")
    sys.exit(told.rstrip())
"""

#: What is no part of the plugin.
LEFT_OUT = {"__pycache__", "build", "dist", "node_modules", "requirements.lock", "target", "venv"}
#: Files that are not Python are for modules that read them while they are imported. All of them together, and each.
DATA_BYTES = 8 << 20
FILE_BYTES = 1 << 20


def main() -> None:
    kind = sys.argv[1] if sys.argv[1:2] in (["--runtime"], ["--sources"]) else None
    rest = sys.argv[2 if kind else 1 :]
    if len(rest) != 2:
        sys.exit("usage: build.py [--runtime | --sources] FOLDER OUT")
    folder, out = Path(rest[0]).resolve(), Path(rest[1]).resolve()
    entry = folder / os.environ.get("WINDLASS_BUILD_ENTRY", "app.py")
    if kind != "--runtime":
        if not entry.is_file():
            fail(f"there is no {entry}.", "Name the plugin's file in windlass.toml: entry = \"app.py\" under [build]")
        if not entry.stem.isidentifier():
            fail(f"{entry.name} cannot be imported: its name is no Python name.", "Call it app.py, for instance.")
    http = os.environ.get("WINDLASS_BUILD_HTTP") == "1"
    if kind == "--sources":
        if os.environ.get("WINDLASS_BUILD_CHECK") != "0":
            check(folder, entry)
        return write(out, json.dumps(sources(folder, entry), ensure_ascii=False, sort_keys=True).encode())
    send = "import windlass._wasi_http" if http else ""
    installed = packages(folder)
    with tempfile.TemporaryDirectory(prefix="windlass-python-") as work:
        # Copies, so that whatever else lies in the folders is neither seen nor written to.
        app, sdk, plugin = Path(work, "app"), Path(work, "sdk"), Path(work, "plugin")
        app.mkdir()
        shutil.copytree(SDK / "windlass", sdk / "windlass", ignore=shutil.ignore_patterns("__pycache__"))
        if kind == "--runtime":
            # Folders are known by their number: 0 is that of the app, 1 the SDK, the packages come after.
            before, after = ["/python", "/world"], ["/1", *(f"/{number + 2}" for number in range(len(installed)))]
            (app / "windlass_app.py").write_text(RUNTIME.format(http=send, before=before, after=after))
            world = "runtime-http" if http else "runtime"
            return write(out, componentize("the runtime for `windlass dev`", world, work, [app, sdk, *installed]))
        copy(folder, plugin, out)
        library, world = reproducible.LIBRARY, "handler-http" if http else "handler"
        (app / "windlass_app.py").write_text(APP.format(module=entry.stem, http=send, library=library))
        source = reproducible.digest([app, plugin, sdk], world)
        (app / library).write_bytes(reproducible.library(source))
        found = plugin / entry.relative_to(folder).parent
        made = componentize(entry.name, world, work, [app, found, plugin, sdk, *installed])
        settled = reproducible.settle(made, source)
        if settled is None:
            print("warning: this version of componentize-py is not known; the same source may give another component each time", file=sys.stderr)
        write(out, settled or made)


def copy(folder: Path, to: Path, out: Path) -> None:
    def left_out(place: str, inner: list[str]) -> list[str]:
        paths = {name: Path(place, name).resolve() for name in inner}
        return [name for name, path in paths.items() if name.startswith(".") or name in LEFT_OUT or path in (SDK, out)]

    shutil.copytree(folder, to, ignore=left_out, ignore_dangling_symlinks=True)


def componentize(what: str, world: str, work: str, paths: list[Path]) -> bytes:
    tool = Path(sys.executable).parent / "componentize-py"
    if not tool.exists():
        fail("componentize-py is missing: it makes a component of Python.", f"Install it: {sys.executable} -m pip install -r {SDK / 'requirements.txt'}")
    part, environment = Path(work) / "out.wasm", Path(work) / "environment"
    # componentize-py would show the component the packages of its own environment.
    (environment / "lib" / "site-packages").mkdir(parents=True)
    command = [str(tool), "-d", str(wit()), "-w", world, "componentize"]
    for path in dict.fromkeys(map(str, paths)):
        command += ["-p", path]
    variables = {**os.environ, "VIRTUAL_ENV": str(environment)}
    made = subprocess.run([*command, "windlass_app", "-o", str(part)], capture_output=True, text=True, env=variables)
    if made.returncode != 0:
        fail(f"{what} does not become a component:", *told(made.stdout + made.stderr))
    return part.read_bytes()


def write(out: Path, data: bytes) -> None:
    """Written beside and moved, so that nobody reads half of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(out.name + ".part")
    beside.write_bytes(data)
    beside.replace(out)


def check(folder: Path, entry: Path) -> None:
    """Imports the plugin with this Python: what is wrong with it is said before it takes the place of what works."""
    places = dict.fromkeys(map(str, [entry.parent, folder, SDK, *packages(folder)]))
    command = [sys.executable, "-B", "-c", CHECK, *places, entry.stem]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if found.returncode != 0:
        version = ".".join(map(str, sys.version_info[:2]))
        fail(f"{entry.name} cannot be imported:", *found.stderr.splitlines(), f"(by Python {version}; a component has 3.14. `windlass dev --no-check` leaves this check out)")


def sources(folder: Path, entry: Path) -> dict[str, object]:
    """All modules of the folder, and the files beside them."""
    files: dict[str, str] = {}
    data: dict[str, str] = {}
    room = DATA_BYTES
    for path in walk(folder):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".py":
            try:
                files[name] = path.read_text("utf-8")
            except UnicodeDecodeError as error:
                fail(f"{name} is no UTF-8: {error}")
        elif path.stat().st_size <= min(FILE_BYTES, room):
            content = path.read_bytes()
            room -= len(content)
            data[name] = base64.b64encode(content).decode()
    return {"entry": entry.relative_to(folder).as_posix(), "files": files, "data": data}


def walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in LEFT_OUT or path.resolve() == SDK:
            continue
        if path.is_dir():
            yield from walk(path)
        elif path.is_file():
            yield path


def wit() -> Path:
    """Beside the SDK in the repository, within it in a copy."""
    for found in (SDK / "wit", SDK.parent / "wit"):
        if (found / "guest.wit").is_file():
            return found
    fail(f"the interface is missing: there is no {SDK / 'wit'}.", "Copy the SDK anew: windlass plugin new makes a whole one.")
    raise AssertionError


def packages(folder: Path) -> list[Path]:
    """Installs what the plugin's own requirements.txt names, once for each content."""
    wanted = folder / "requirements.txt"
    if not wanted.is_file() or not wanted.read_text().strip():
        return []
    try:
        return [installed(lock.lock(wanted))]
    except lock.Refused as refused:
        fail(*refused.args)
    raise AssertionError


def installed(locked: Path) -> Path:
    """The folder with what a lock file names."""
    digest = hashlib.sha256(locked.read_bytes()).hexdigest()[:16]
    target = Path(sys.prefix) / "packages" / digest
    if not target.is_dir():
        print(f"==> installing {locked} into {target}", file=sys.stderr)
        part = target.with_name(f"{digest}.{os.getpid()}")
        lock.install(locked, part)
        try:
            part.rename(target)
        except OSError:
            pass  # somebody else was quicker
    return target


def told(output: str) -> list[str]:
    """Of what componentize-py says, the part about the plugin: not its own frames, nor those of the machine."""
    text = re.split(r"\n\s*(?:Caused by:|Stack backtrace:|error while executing)", output)[0]
    # Its own traceback comes first, up to the words of the error, in which the plugin's begins.
    text = text.rpartition("AssertionError: ")[2]
    head = "Traceback (most recent call last):"
    text = head + text.rpartition(head)[2] if text.count(head) > 1 else text
    lines = [re.sub(r'File "/[0-9]+/', 'File "', line) for line in text.splitlines() if line.strip()]
    ours = ("windlass_app", "bin/componentize-py", "sys.exit(script())", "^^^^^^^^", "import windlass._wasm")
    kept = [line for line in lines if not any(line.strip() == each or each in line and "File" in line for each in ours)]
    return kept[-30:] or output.splitlines()[-30:]


def fail(what: str, *more: str) -> None:
    print(f"error: {what}", file=sys.stderr)
    for line in more:
        print(f"       {line}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
