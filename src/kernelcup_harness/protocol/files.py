"""Files by name: what a submission consists of, and which names a job may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceTree:
    """The files of one submission: one file as a rule."""

    entry: str
    """The file that has ``custom_kernel``; its suffix tells the language."""
    files: dict[str, str]
    """Plain relative path to text, the entry included."""

    @classmethod
    def of(cls, text: str, name: str = "submission.py") -> SourceTree:
        return cls(entry=name, files={name: text})

    @property
    def code(self) -> str:
        """The text of the entry."""
        return self.files[self.entry]

    @property
    def text(self) -> str:
        """All files one after the other: of one its text, of several each below a comment with its name."""
        if len(self.files) == 1:
            return self.code
        return "\n".join(f"# ---- {name}\n{text}" for name, text in self.in_order.items())

    @property
    def in_order(self) -> dict[str, str]:
        """The files by name, the entry first."""
        return {self.entry: self.code} | {name: self.files[name] for name in sorted(self.files)}

    def problem(self, sources: Iterable[str]) -> str:
        """Return why the files cannot lie beside the task's ``sources``, else an empty text."""
        names = [*self.files, *sources]
        if self.entry not in self.files:
            return "the entry is not among the files"
        if not all(map(is_plain_name, self.files)):
            return "a name that is not a plain relative path"
        if has_clash(names):
            return "a name that is both a file and a folder"
        if taken := sorted(
            {import_name(name) for name in self.files} & {import_name(name) for name in sources}
        ):
            return f"the task has a file or a folder {taken[0]!r}, too"
        if not all(map(is_encodable, self.files.values())):
            return "text that cannot be written as UTF-8"
        return ""


def import_name(name: str) -> str:
    """Return what an import calls the top folder or file: of ``kernels/a.py`` and ``kernels.py`` it finds one."""
    top = PurePosixPath(name).parts[0]
    return top.removesuffix(".py")


def is_plain_name(name: str) -> bool:
    """Return whether a file name stays in the folder that it is relative to."""
    parts = name.split("/")
    return is_encodable(name) and "\0" not in name and not {"", ".", ".."} & set(parts)


def is_encodable(text: str) -> bool:
    """Return whether a text can be written as UTF-8: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_clash(names: list[str]) -> bool:
    """Return whether one name is also the folder of another."""
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    return not folders.isdisjoint(names)
