"""Load uploaded tasks: a folder as files, a zip, or one file of the older form.

Everything stays in memory, so that no name in a task can refer to a file of this machine.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from kernelcup.domain import Task
from kernelcup.errors import InvalidTask, Problem
from kernelcup.tasks.folder import TASK_FILE
from kernelcup.tasks.loader import FORMS, load_tree, refusal
from kernelcup.tasks.manifest.problems import raise_problems, single_problem
from kernelcup.tasks.manifest.size_limits import MAX_FILE_BYTES, MIB
from kernelcup.tasks.single_file import SINGLE_ENDINGS, read_single_file
from kernelcup.tasks.sources.archive import unpack
from kernelcup.tasks.sources.trees import ArchiveTree, Unreadable, reject_odd_target

MAX_FILES = 200
MAX_BYTES = 10 * MIB

SINGLE = (".zip", *SINGLE_ENDINGS)


def load_upload(files: Mapping[str, bytes], *, name: str = "task") -> Task:
    """Load an uploaded task.

    Args:
        files: Contents by path, as the sender wrote it; a zip or an older task is the only file.
        name: The task's name if no folder or file gives it.

    Raises:
        InvalidTask: The task has problems; the error lists all, each with its path as the sender wrote it.
    """
    _refuse_odd(files)
    if len(files) == 1:
        ((path, content),) = files.items()
        if posixpath.basename(path) != TASK_FILE:
            return _load_single(path, content)
    return load_tree(ArchiveTree("", files), _folder_name(files) or name)


def _load_single(path: str, content: bytes) -> Task:
    stem, ending = posixpath.splitext(posixpath.basename(path))
    if ending.lower() == ".zip":
        return load_tree(unpack(path, content), stem)
    if ending.lower() in SINGLE_ENDINGS:
        return read_single_file(content, path, stem)
    raise single_problem(path, refusal(ending.lower()))


def _folder_name(files: Mapping[str, bytes]) -> str:
    """Return the name of the outermost folder with a ``task.yml``, empty if that is the root."""
    found = [posixpath.dirname(path) for path in files if posixpath.basename(path) == TASK_FILE]
    return posixpath.basename(min(found, key=len, default=""))


def _refuse_odd(files: Mapping[str, bytes]) -> None:
    if not files:
        raise InvalidTask([Problem(file=".", text=f"there are no files; a task is {FORMS}")])
    if len(files) > MAX_FILES:
        raise single_problem(".", f"has {len(files)} files; at most {MAX_FILES} are allowed")
    if sum(map(len, files.values())) > MAX_BYTES:
        raise single_problem(".", f"is larger than {MAX_BYTES // MIB} MiB together")
    problems = [
        Problem(file=path or "?", text=text)
        for path, content in files.items()
        if (text := _fault(path, content, alone=len(files) == 1))
    ]
    raise_problems(problems)


def _fault(path: str, content: bytes, *, alone: bool) -> str | None:
    try:
        reject_odd_target(path)
    except Unreadable as error:
        return f"the name {error}"
    packed = alone and path.lower().endswith(SINGLE)
    if len(content) > MAX_FILE_BYTES and not packed:
        return f"is larger than {MAX_FILE_BYTES // MIB} MiB"
    return None
