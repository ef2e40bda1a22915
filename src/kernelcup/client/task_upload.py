"""Pack a task for upload to a server, with exactly the files that it names."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from pathlib import Path

from kernelcup.domain import Task
from kernelcup.errors import NotFound
from kernelcup.tasks.folder import TASK_FILE, load_folder
from kernelcup.tasks.loader import load_task, require
from kernelcup.tasks.sources.roots import find_root
from kernelcup.tasks.sources.trees import FolderTree


@dataclass(frozen=True, slots=True)
class NotingTree:
    """A folder that records which of its files were read."""

    tree: FolderTree
    taken: dict[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """Return a file's content. Raise :class:`Unreadable`."""
        content = self.tree.read(path)
        self.taken[path] = content
        return content

    def label(self, path: str) -> str:
        """Return the file's name for problem lines."""
        return self.tree.label(path)


@dataclass(frozen=True, slots=True)
class TaskAt:
    """A task at a path: a function that loads it, and its files for upload."""

    path: Path

    def __call__(self) -> Task:
        """Load it. Raise ``InvalidTask``."""
        return load_task(self.path)

    def files(self) -> dict[str, bytes]:
        """Return its files for upload. Raises like :func:`pack`."""
        return pack(self.path)[1]


def pack(path: Path) -> tuple[Task, dict[str, bytes]]:
    """Return the task at ``path``, and its files for upload.

    From a folder only the files that the task names are sent, including those beside the folder.

    Raises:
        NotFound: The path does not exist.
        InvalidTask: The task has problems, all of which are in the error; then there is nothing to send.
    """
    require(path)
    folder = path.parent if path.name == TASK_FILE else path
    if not folder.is_dir():
        return load_task(path), {path.name: _content(path)}
    place = folder.resolve()
    root = find_root(place)
    base = posixpath.normpath(place.relative_to(root).as_posix()).removeprefix(".")
    tree = NotingTree(FolderTree(root, base, folder))
    return load_folder(tree, base, place.name), tree.taken


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
