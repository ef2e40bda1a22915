"""Find the root of a task folder's problem set, which limits the reach of ``../x``."""

from __future__ import annotations

import posixpath
from pathlib import Path

from kernelcup.tasks.manifest.size_limits import MAX_YAML_BYTES
from kernelcup.tasks.manifest.yaml_text import read_yaml

LEVELS_UP = 3
ENDINGS = (".yaml", ".yml")


def find_root(folder: Path) -> Path:
    """Return the nearest of three ancestors whose problem set lists ``folder``, else its parent.

    ``folder`` must be resolved. A folder gets access to the files beside it by being named in a problem set.
    """
    for ancestor in list(folder.parents)[:LEVELS_UP]:
        if _is_listed(ancestor, folder.relative_to(ancestor).as_posix()):
            return ancestor
    return folder.parent


def _is_listed(ancestor: Path, directory: str) -> bool:
    try:
        candidates = sorted(path for path in ancestor.iterdir() if path.suffix in ENDINGS)
    except OSError:
        return False
    return any(directory in _directories(path) for path in candidates)


def _directories(path: Path) -> set[str]:
    """Return the task folders that a problem set lists; empty for any other file."""
    if not path.is_file() or path.is_symlink():
        return set()
    try:
        with path.open("rb") as file:
            content = file.read(MAX_YAML_BYTES)
    except OSError:
        return set()
    if b"problems:" not in content:
        return set()  # parsing takes milliseconds, and most YAML files are not problem sets
    value = read_yaml(content).value
    problems = value.get("problems") if isinstance(value, dict) else None
    entries = problems if isinstance(problems, list) else []
    named = (entry.get("directory") for entry in entries if isinstance(entry, dict))
    return {posixpath.normpath(directory) for directory in named if isinstance(directory, str)}
