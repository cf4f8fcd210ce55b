"""Builds real components, with the installed tools."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SDK = Path(__file__).resolve().parents[1]

APP = """\
import logging, random, tempfile, uuid
from dataclasses import dataclass

from windlass import handler
from lib import names

@dataclass
class Order:
    id: str

KNOWN = {name for name in names.ALL}

@handler("orders")
def run(order: Order):
    return [order.id, random.random(), sorted(KNOWN)]
"""
FILES = {
    "app.py": APP,
    "lib/__init__.py": "",
    "lib/names.py": "ALL = ['a', 'b', 'c']\n",
    "notes.txt": "kept beside it\n",
    "windlass.toml": "[build]\n",
}


class Build(unittest.TestCase):
    def setUp(self) -> None:
        tools = subprocess.run([SDK.parents[1] / "scripts" / "python-guest.sh"], stdout=subprocess.PIPE, text=True, check=True)
        self.python = tools.stdout.strip()

    def build(self, place: Path, files: dict[str, str], http: bool, time: int) -> bytes:
        folder = place / "plugin"
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            os.utime(path, (time, time))
        out = place / "out.wasm"
        environment = {**os.environ, "TMPDIR": str(place), "WINDLASS_BUILD_HTTP": "1" if http else "0"}
        made = subprocess.run([self.python, SDK / "build.py", folder, out], env=environment, capture_output=True, text=True)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return out.read_bytes()

    def test_the_same_source_gives_the_same_component_wherever_and_whenever_it_is_built(self) -> None:
        # File systems differ in the order in which they name files, and in the size of a folder.
        memory = Path("/dev/shm")
        elsewhere = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(dir=elsewhere) as other:
            first = self.build(Path(one), FILES, True, 1_000_000_000)
            # What builds leave behind is no source.
            stray = {"build/app.wasm": "old", "__pycache__/app.pyc": "old", ".git/HEAD": "main"}
            again = self.build(Path(other, "deeper", "down"), {**stray, **dict(reversed(FILES.items()))}, True, 1_700_000_000)
            self.assertTrue(first == again, "the same source has become two components")
            changed = self.build(Path(one), {"app.py": APP.replace("orders", "others")}, True, 1_000_000_000)
            self.assertFalse(first == changed, "another source has become the same component")


if __name__ == "__main__":
    unittest.main()
