"""A home of its own for all tests: nothing depends on the developer's, and nothing is written there."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "XDG_STATE_HOME": ".local/state",
    "XDG_RUNTIME_DIR": "run",
}
KEPT = ("KERNELCUP_TEST_", "KERNELCUP_HARNESS_SANDBOX")
"""Variables that are about the tests themselves, and the kind of sandbox to try them with."""


@cache
def move_out() -> Path:
    """Point this process and its children to an empty home, and forget settings of the developer's KernelCup."""
    real = Path.home()
    # The path is short: sockets lie below it.
    home = Path(tempfile.mkdtemp(prefix="kc-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    # Browsers are installed once for a user.
    os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(real / ".cache/ms-playwright"))
    os.environ["HOME"] = str(home)
    for name, folder in FOLDERS.items():
        (home / folder).mkdir(parents=True, mode=0o700)
        os.environ[name] = str(home / folder)
    for name in [name for name in os.environ if name.startswith("KERNELCUP_") and not name.startswith(KEPT)]:
        del os.environ[name]
    return home
