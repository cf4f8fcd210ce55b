"""What a plugin's own requirements.txt brings: exact versions, each with the digest of the file that is installed.

A requirements.txt with digests (`--hash=sha256:...` at each package) is taken as it is. For any other, `requirements.lock` is written
beside it, once for each content, to be kept with the sources. pip installs only wheels: nothing runs a script to be built.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]


class Refused(Exception):
    """What is wrong, and what to do, line by line."""


def lock(wanted: Path) -> Path:
    """The file that names every package with its digest."""
    if "--hash=" in wanted.read_text():
        return wanted
    locked = wanted.with_suffix(".lock")
    head = f"# Made of requirements.txt with the digest sha256:{hashlib.sha256(wanted.read_bytes()).hexdigest()}"
    if not locked.is_file() or locked.read_text().splitlines()[:1] != [head]:
        print(f"==> writing {locked}: keep it with the sources", file=sys.stderr)
        locked.write_text("\n".join([head, *pinned(resolve(wanted)), ""]))
    return locked


def resolve(wanted: Path) -> list[dict]:
    """What pip would install, without installing it."""
    with tempfile.TemporaryDirectory(prefix="windlass-python-") as work:
        report = Path(work, "report.json")
        command = [*PIP, "--dry-run", "--ignore-installed", "--report", str(report), "-r", str(wanted)]
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            raise Refused(f"pip found no packages for {wanted} (see above).", "Each must have a wheel, and pip must be 22.2 or newer.")
        return json.loads(report.read_text())["install"]


def pinned(found: list[dict]) -> list[str]:
    """A line for each package."""
    lines = []
    for package in found:
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        archive = package["download_info"].get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
        if not digest:
            raise Refused(f"{name} comes from a folder or a repository, which has no digest.", "Name a version that has been released.")
        lines.append(f"{name}=={version} --hash=sha256:{digest}")
    return sorted(lines)


def install(locked: Path, target: Path) -> None:
    """Installs exactly these packages into a folder."""
    command = [*PIP, "--require-hashes", "--no-deps", "--no-compile", "--target", str(target), "-r", str(locked)]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise Refused(
            f"pip could not install what {locked} names (see above).",
            "If a package has been replaced on purpose, or the file is from another kind of machine: remove it, and build again.",
        )
