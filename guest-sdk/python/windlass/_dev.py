"""The runtime of `windlass dev`: a component without a plugin in it, which takes the plugin's files from the server.

It is built once. It holds the interpreter, the SDK, the standard library and the packages of the plugin's requirements.txt; the
plugin's own files come with each version, as the text that `build.py --sources` writes, and are imported when an instance runs its
first job. In a component there are no files, so all that could be imported is kept here as compiled code.
"""

from __future__ import annotations

import base64
import builtins
import importlib.machinery
import io
import json
import linecache
import marshal
import os
import pathlib
import sys
import zlib
from typing import Any, Iterator, Optional

from wit_world.imports import sources

from . import _wasm, handlers

#: Where the plugin's folder seems to lie. Like the folders of a build it has a number for a name, which tracebacks leave out.
FOLDER = "/0/"
#: Of the standard library: what no handler imports, or cannot work in a component.
_LEFT_OUT = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tests", "tkinter", "turtledemo"}
#: Larger files beside the modules of a package are left out.
_DATA_BYTES = 1 << 20

#: A path: what the file holds. For modules that read a file while they are imported.
_files: dict[str, bytes] = {}
_state: dict[str, Any] = {}


class Run(_wasm.Run):
    def run(self, job: Any) -> bytes:
        if "loaded" not in _state:
            _state["loaded"] = _attempt(_load)
        if _state["loaded"] is not None:
            raise _state["loaded"]
        return super().run(job)


def prepare(before: list[str], after: list[str]) -> None:
    """Called at build time: keeps what can be imported from these folders. What is in `before` hides the plugin's modules of the same
    name, and these what is in `after`: the order of a build."""
    place = sys.meta_path.index(importlib.machinery.PathFinder)
    sys.meta_path[place:place] = [_Library(before), _Plugin(), _Library(after)]
    sys.path_importer_cache.clear()
    _wasm.settle()


def _modules(folder: str) -> Iterator[tuple[str, str, bool]]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and "." not in name)
        inside = place[len(folder) :].strip("/").replace("/", ".")
        for name in sorted(files):
            path, module = f"{place}/{name}", name.removesuffix(".py")
            if module == name:
                if os.path.getsize(path) <= _DATA_BYTES:
                    with open(path, "rb") as file:
                        _files[path] = file.read()
            elif module == "__init__":
                if inside:
                    yield path, inside, True
            elif "." not in module:
                yield path, f"{inside}.{module}" if inside else module, False


class _Loader:
    """What both loaders have in common: a module is code and a path."""

    def create_module(self, spec: Any) -> None:
        return None

    def get_data(self, path: str) -> bytes:
        if path not in _files:
            raise FileNotFoundError(2, "there is no such file among the plugin's", path)
        return _files[path]

    def get_resource_reader(self, name: str) -> Any:
        found = sys.modules[name].__spec__
        return None if found is None or found.origin is None else _Resources(found.origin)

    def spec(self, name: str, path: str, is_package: bool) -> Any:
        spec = importlib.machinery.ModuleSpec(name, self, origin=path, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [path.rpartition("/")[0]]
        return spec


class _Resources:
    """Of importlib.resources, what opens a file by its name."""

    def __init__(self, origin: str) -> None:
        self._folder = pathlib.PurePosixPath(origin).parent

    def files(self) -> Any:
        return pathlib.Path(self._folder)


class _Library(_Loader):
    """Finds and loads what was in some folders at build time."""

    def __init__(self, folders: list[str]) -> None:
        #: A module's name: the path of its file, whether it is a package, and its code.
        self._kept: dict[str, tuple[str, bool, bytes]] = {}
        for folder in folders:
            for path, name, is_package in _modules(folder):
                with open(path, "rb") as file:
                    source = file.read()
                try:
                    code = compile(source, path, "exec", dont_inherit=True)
                except (SyntaxError, ValueError):
                    continue  # Packages carry templates, and tests of broken code.
                self._kept.setdefault(name, (path, is_package, zlib.compress(marshal.dumps(code))))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        found = self._kept.get(name)
        return found and self.spec(name, found[0], found[1])

    def exec_module(self, module: Any) -> None:
        exec(marshal.loads(zlib.decompress(self._kept[module.__name__][2])), module.__dict__)


class _Plugin(_Loader):
    """Finds and loads the plugin's own modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        inside = name.replace(".", "/")
        for root in _state.get("roots", ()):
            for file, is_package in ((f"{inside}/__init__.py", True), (f"{inside}.py", False)):
                if FOLDER + root + file in _files:
                    return self.spec(name, FOLDER + root + file, is_package)
            # A folder without an __init__.py is a package too.
            if any(file.startswith(f"{FOLDER}{root}{inside}/") and file.endswith(".py") for file in _files):
                return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def exec_module(self, module: Any) -> None:
        path = module.__spec__.origin
        if path is not None:
            exec(compile(_files[path], path, "exec", dont_inherit=True), module.__dict__)

    def get_source(self, name: str) -> Optional[str]:
        path = sys.modules[name].__spec__.origin  # type: ignore[union-attr]
        return None if path is None else _files[path].decode("utf-8", "replace")


def _load() -> None:
    """Imports the plugin. Whatever is wrong with it is the error of the job that comes first, and of all after it."""
    text = sources.read()
    if text is None:
        raise RuntimeError("this is the runtime of `windlass dev`, and no sources came with it; build the plugin: windlass plugin push")
    plugin = json.loads(text)
    _files.update((FOLDER + path, text.encode()) for path, text in plugin["files"].items())
    _files.update((FOLDER + path, base64.b64decode(data)) for path, data in plugin["data"].items())
    folder, _, entry = plugin["entry"].rpartition("/")
    _state["roots"] = list(dict.fromkeys([f"{folder}/" if folder else "", ""]))
    for path, data in _files.items():
        if path.startswith(FOLDER) and path.endswith(".py"):
            lines = data.decode("utf-8", "replace").splitlines(keepends=True)
            linecache.cache[path] = (len(data), None, lines, path)
    opened = builtins.open
    builtins.open = io.open = _open(opened)  # type: ignore[assignment]
    try:
        __import__(entry.removesuffix(".py"))
    finally:
        # From here on there are no files, as in a component that was built.
        builtins.open = io.open = opened  # type: ignore[assignment]
    handlers.check()
    _wasm.settle()


def _open(opened: Any) -> Any:
    def open(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None, *more: Any, **named: Any) -> Any:
        path = os.path.normpath(os.fspath(file)) if isinstance(file, (str, os.PathLike)) else None
        found = _files.get(path) if isinstance(path, str) else None
        if found is None or set(mode) & set("wax+"):
            return opened(file, mode, buffering, encoding, errors, newline, *more, **named)
        if "b" in mode:
            return io.BytesIO(found)
        encoding = "utf-8" if encoding in (None, "locale") else encoding
        return io.TextIOWrapper(io.BytesIO(found), encoding=encoding, errors=errors, newline=newline)

    return open


def _attempt(work: Any) -> Optional[BaseException]:
    try:
        work()
    except BaseException as error:  # also SystemExit: nothing may get past this, it would be a trap without words
        return _wasm.failed(error, skip=_is_ours)
    return None


def _is_ours(path: str) -> bool:
    """Frames of the machinery that imports, which its author does not want to see."""
    return path == __file__ or path.startswith("<frozen ")
