"""Load a task from any of its formats."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from kernelcup.domain import Task
from kernelcup.errors import NotFound
from kernelcup.tasks.folder import TASK_FILE, load_folder
from kernelcup.tasks.manifest.problems import single_problem
from kernelcup.tasks.single_file import SINGLE_ENDINGS, load_single_file
from kernelcup.tasks.sources.archive import read_archive
from kernelcup.tasks.sources.roots import ENDINGS, find_root
from kernelcup.tasks.sources.trees import ArchiveTree, FolderTree
from kernelcup_harness.protocol import HarnessKind

FORMS = (
    f"a folder or a zip with a `{TASK_FILE}`, the `{TASK_FILE}` itself, or a single file "
    f"({', '.join(SINGLE_ENDINGS)})"
)


def load_task(path: Path, *, harness: HarnessKind | None = None) -> Task:
    """Load the folder, ``task.yml``, zip or single file at ``path``.

    ``harness`` overrides the harness that it chooses itself; a single file is always judged by the standard one.

    Raise ``InvalidTask`` with all problems at once, ``NotFound`` if the path does not exist.
    """
    require(path)
    if path.is_dir():
        return _load_directory(path, harness)
    if path.name == TASK_FILE:
        return _load_directory(path.parent, harness)
    ending = path.suffix.lower()
    if ending == ".zip":
        return load_tree(read_archive(path), path.stem, harness=harness)
    if ending in SINGLE_ENDINGS:
        return load_single_file(path)
    raise single_problem(str(path), refusal(ending))


def require(path: Path) -> None:
    """Raise ``NotFound`` if there is nothing at ``path``."""
    if not os.path.exists(path):
        raise NotFound(f"there is no {path}")


def _load_directory(path: Path, harness: HarnessKind | None) -> Task:
    folder = path.resolve()
    root = find_root(folder)
    base = posixpath.normpath(folder.relative_to(root).as_posix()).removeprefix(".")
    return load_folder(FolderTree(root, base, path), base, folder.name, harness=harness)


def load_tree(tree: ArchiveTree, name: str, *, harness: HarnessKind | None = None) -> Task:
    """Load the one task among files in memory. Raise ``InvalidTask`` with all problems at once."""
    return load_folder(tree, _task_folder(tree), name, harness=harness)


def _task_folder(tree: ArchiveTree) -> str:
    """Return the task's folder in the archive."""
    if TASK_FILE in tree.files:
        return ""
    # macOS adds metadata of all files under this name.
    files = [file for file in tree.files if not file.startswith("__MACOSX/")]
    folders = sorted(posixpath.dirname(file) for file in files if posixpath.basename(file) == TASK_FILE)
    top = {file.partition("/")[0] for file in files}
    if len(folders) == 1 or (len(top) == 1 and top & set(folders)):
        return min(folders, key=len)
    if not folders:
        raise single_problem(tree.name or ".", f"has no `{TASK_FILE}`")
    text = f"has several tasks ({', '.join(folders)}); {'zip' if tree.name else 'send'} one task alone"
    raise single_problem(tree.name or ".", text)


def refusal(ending: str) -> str:
    """Return why a file with this suffix is not a task."""
    if ending in ENDINGS:
        return f"is no task but perhaps a problem set, which holds several; a task is {FORMS}"
    return f"is no task; a task is {FORMS}"
