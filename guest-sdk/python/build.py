"""Makes a component of a plugin folder.

usage: build.py FOLDER OUT.wasm

Run by the Python of a virtual environment with requirements.txt installed. `windlass plugin build` and plugins/build.sh do that; by hand:

    python3 -m venv tools && tools/bin/pip install -r requirements.txt && tools/bin/python build.py my-plugin my-plugin.wasm

WINDLASS_BUILD_ENTRY is the plugin's file, app.py unless set. WINDLASS_BUILD_HTTP=1 lets it send HTTP requests. A requirements.txt
in the folder is installed beside the tools: pure Python packages only, there is no machine code in a component.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SDK = Path(__file__).resolve().parent

APP = """\
import sys
import windlass._wasm
{http}
import {module}
from windlass._wasm import Run
windlass._wasm.ready(sys.modules["{module}"].__file__.rpartition("/")[0])
"""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: build.py FOLDER OUT.wasm")
    folder, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    entry = folder / os.environ.get("WINDLASS_BUILD_ENTRY", "app.py")
    if not entry.is_file():
        fail(f"there is no {entry}.", "Name the plugin's file in windlass.toml: entry = \"app.py\" under [build]")
    if not entry.stem.isidentifier():
        fail(f"{entry.name} cannot be imported: its name is no Python name.", "Call it app.py, for instance.")
    http = os.environ.get("WINDLASS_BUILD_HTTP") == "1"
    tool = Path(sys.executable).parent / "componentize-py"
    if not tool.exists():
        fail("componentize-py is missing: it makes a component of Python.", f"Install it: {sys.executable} -m pip install -r {SDK / 'requirements.txt'}")
    with tempfile.TemporaryDirectory(prefix="windlass-python-") as work:
        app = Path(work) / "windlass_app.py"
        app.write_text(APP.format(module=entry.stem, http="import windlass._wasi_http" if http else ""))
        part = Path(work) / "out.wasm"
        paths = [work, str(entry.parent), str(folder), str(SDK), *packages(folder)]
        command = [str(tool), "-d", str(wit()), "-w", "handler-http" if http else "handler", "componentize"]
        for path in dict.fromkeys(paths):
            command += ["-p", path]
        made = subprocess.run([*command, "windlass_app", "-o", str(part)], capture_output=True, text=True)
        if made.returncode != 0:
            fail(f"{entry.name} does not become a component:", *told(made.stdout + made.stderr))
        out.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and moved, so that nobody reads half of it.
        beside = out.with_name(out.name + ".part")
        beside.write_bytes(part.read_bytes())
        beside.replace(out)


def wit() -> Path:
    """Beside the SDK in the repository, within it in a copy."""
    for found in (SDK / "wit", SDK.parent / "wit"):
        if (found / "guest.wit").is_file():
            return found
    fail(f"the interface is missing: there is no {SDK / 'wit'}.", "Copy the SDK anew: windlass plugin new makes a whole one.")
    raise AssertionError


def packages(folder: Path) -> list[str]:
    """Installs what the plugin's own requirements.txt names, once for each content."""
    wanted = folder / "requirements.txt"
    if not wanted.is_file() or not wanted.read_text().strip():
        return []
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]
    target = Path(sys.prefix) / "packages" / digest
    if not target.is_dir():
        print(f"==> installing {wanted} into {target}", file=sys.stderr)
        part = target.with_name(f"{digest}.{os.getpid()}")
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", str(part), "-r", str(wanted)]
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            fail(f"pip could not install {wanted} (see above).")
        try:
            part.rename(target)
        except OSError:
            pass  # somebody else was quicker
    return [str(target)]


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
