"""The last step of a build: nothing of the build itself stays in the snapshot.

`still` is a library that is linked into the component (its text is still/still.wat). Since before the interpreter started it has zeroed
memory that was given back, sorted the folders' contents and hidden the files' times; this puts everything back.
"""

from __future__ import annotations

import _imp
import gc
import importlib.machinery
import os
import random
import sys


def finish(library: str) -> None:
    for name in ("PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    # Seeded again at the start of each job.
    random.seed(0)
    if "logging" in sys.modules:
        sys.modules["logging"]._startTime = 0  # type: ignore[attr-defined]
    spec = importlib.machinery.ModuleSpec("still", None, origin=library)
    sys.path_importer_cache.clear()
    gc.collect()
    try:
        _imp.create_dynamic(spec)
    except SystemError:
        pass  # It is no module: to be called is all it is for.
