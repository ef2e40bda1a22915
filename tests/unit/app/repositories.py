"""Makes git repositories for tests."""

from __future__ import annotations

from pathlib import Path

from dulwich import porcelain
from dulwich.repo import Repo

AUTHOR = b"Grace <grace@example.org>"


def repository(folder: Path, files: dict[str, str], branch: str = "main") -> str:
    """Commit files to the repository in a folder, which is made at first, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    old = (folder / ".git").exists()
    with Repo(str(folder)) if old else Repo.init(str(folder), default_branch=branch.encode()) as repo:
        for name, text in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        porcelain.add(repo, paths=[str(folder / name) for name in files])
        porcelain.commit(repo, message=b"a commit", author=AUTHOR, committer=AUTHOR)
    return str(folder)
