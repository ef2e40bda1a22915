"""Write a small working task, or a copy of a shipped one, as a starting point."""

from __future__ import annotations

from pathlib import Path

from kernelcup.names import check_board_name
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.sources.files import LENT, shipped_text
from kernelcup.tasks.writer import claim_for_task

FILES = (
    "task.yml",
    "task.py",
    "reference.py",
    "template.py",
    "solutions/correct.py",
    "solutions/wrong.py",
)
# The files end in .txt, so that tools do not mistake them for modules of this package.
ENDING = ".txt"


def new_task(directory: Path, *, name: str | None = None) -> list[Path]:
    """Write a task into ``directory``, which must be empty or absent; return the files.

    Raise ``Conflict`` if it is not empty, ``InvalidValue`` for a name that no leaderboard can have.
    """
    title = name if name is not None else directory.resolve().name
    check_board_name(title, "Task")
    claim_for_task(directory)
    written = []
    for file in FILES:
        target = directory / file
        target.parent.mkdir(exist_ok=True)
        target.write_text(shipped_text("scaffold/files", f"{file}{ENDING}", name=title), encoding="utf-8")
        written.append(target)
    return written


def copy_example(source: Path, directory: Path) -> list[Path]:
    """Copy the shipped task at ``source`` into a new or empty folder; return the files.

    Files that KernelCup lends to it are written too, so that the copy has everything that judges it.

    Raise ``Conflict`` if the folder is not empty, ``InvalidValue`` for a name that no leaderboard can have.
    """
    claim_for_task(directory)
    written = []
    folder = source if source.is_dir() else source.parent
    for place in sorted(folder.rglob("*")):
        if place.is_file() and "__pycache__" not in place.parts:
            target = directory / place.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(place.read_bytes())
            written.append(target)
    named = load_task(source).sources
    for name in sorted({name for name in LENT if name in named} - {each.name for each in written}):
        (directory / name).write_text(shipped_text("shared", name), encoding="utf-8")
        written.append(directory / name)
    return written
