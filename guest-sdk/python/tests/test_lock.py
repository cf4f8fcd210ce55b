"""What a plugin's requirements.txt brings, with wheels that the test makes and an index that does not exist."""

import contextlib
import io
import os
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lock  # noqa: E402


class Lock(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)
        self.wheels, self.plugin = self.work / "wheels", self.work / "plugin"
        self.wheels.mkdir()
        self.plugin.mkdir()
        environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_CONFIG_FILE": os.devnull}
        variables = mock.patch.dict(os.environ, environment)
        variables.start()
        self.addCleanup(variables.stop)

    def wheel(self, name: str, version: str, source: str, needs: str = "") -> None:
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.wheels / f"{name}-{version}-py3-none-any.whl", "w") as made:
            made.writestr(f"{name}.py", source)
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            made.writestr(f"{info}/METADATA", metadata + (f"Requires-Dist: {needs}\n" if needs else ""))
            made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            made.writestr(f"{info}/RECORD", "")

    def requirements(self, text: str) -> Path:
        path = self.plugin / "requirements.txt"
        path.write_text(text)
        return path

    @staticmethod
    def quietly(action, *arguments):
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            return action(*arguments)

    def test_every_package_gets_its_version_and_digest_and_is_installed_by_them(self) -> None:
        self.wheel("tiny", "1.2", "VALUE = 7\n", needs="inner")
        self.wheel("inner", "0.1", "")
        locked = self.quietly(lock.lock, self.requirements("tiny\n"))
        self.assertEqual(locked.name, "requirements.lock")
        head, *lines = locked.read_text().splitlines()
        self.assertTrue(head.startswith("# Made of requirements.txt with the digest sha256:"), head)
        self.assertEqual([line.split(" ")[0] for line in lines], ["inner==0.1", "tiny==1.2"])
        self.assertTrue(all(" --hash=sha256:" in line for line in lines), lines)
        lock.install(locked, self.work / "target")
        self.assertEqual((self.work / "target" / "tiny.py").read_text(), "VALUE = 7\n")

    def test_a_newer_version_is_not_taken_until_the_requirements_change(self) -> None:
        self.wheel("tiny", "1.2", "")
        locked = self.quietly(lock.lock, self.requirements("tiny\n"))
        before = locked.read_text()
        self.wheel("tiny", "1.3", "")
        self.assertEqual(lock.lock(self.plugin / "requirements.txt").read_text(), before)
        renewed = self.quietly(lock.lock, self.requirements("tiny>=1\n"))
        self.assertIn("tiny==1.3", renewed.read_text())

    def test_a_package_that_was_replaced_is_refused(self) -> None:
        self.wheel("tiny", "1.2", "")
        locked = self.quietly(lock.lock, self.requirements("tiny\n"))
        self.wheel("tiny", "1.2", "import os; os.system('anything')\n")
        with self.assertRaisesRegex(lock.Refused, "pip could not install"):
            lock.install(locked, self.work / "target")
        self.assertFalse((self.work / "target").exists())

    def test_no_script_of_a_package_runs(self) -> None:
        trace = self.work / "trace"
        with tarfile.open(self.wheels / "tiny-1.2.tar.gz", "w:gz") as made:
            for name, text in {
                "setup.py": f"open({str(trace)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='tiny', version='1.2')\n",
                "PKG-INFO": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.2\n",
            }.items():
                entry = tarfile.TarInfo(f"tiny-1.2/{name}")
                entry.size = len(text)
                made.addfile(entry, io.BytesIO(text.encode()))
        with self.assertRaisesRegex(lock.Refused, "pip found no packages"):
            lock.lock(self.requirements("tiny\n"))
        self.assertFalse(trace.exists())
        self.assertFalse((self.plugin / "requirements.lock").exists())

    def test_requirements_with_digests_are_taken_as_they_are(self) -> None:
        wanted = self.requirements("tiny==1.2 --hash=sha256:00\n")
        self.assertEqual(lock.lock(wanted), wanted)
        self.assertFalse((self.plugin / "requirements.lock").exists())

    def test_what_has_no_digest_is_refused(self) -> None:
        found = [{"metadata": {"name": "tiny", "version": "1.2"}, "download_info": {"url": "file:///x", "dir_info": {}}}]
        with self.assertRaisesRegex(lock.Refused, "tiny comes from a folder"):
            lock.pinned(found)
        older = [{"metadata": {"name": "tiny", "version": "1.2"}, "download_info": {"archive_info": {"hash": "sha256=ab"}}}]
        self.assertEqual(lock.pinned(older), ["tiny==1.2 --hash=sha256:ab"])


if __name__ == "__main__":
    unittest.main()
