from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelcup.launchers.gpu_health import cleanup
from kernelcup.launchers.gpu_health.cleanup import Swept, sweep

SOMEBODY = 64999
"""An id that nothing on this machine has."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


def look(tmp_path: Path, proc: Path) -> Swept:
    return sweep(user_ids=frozenset({SOMEBODY}), folders=[str(tmp_path), "/nonexistent"], proc=proc)


def make(path: Path, owner: int = SOMEBODY) -> Path:
    path.write_text("left")
    os.chown(path, owner, owner)
    return path


@as_root
def test_files_and_folders_of_the_users_are_removed(tmp_path: Path, proc: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)
    (folder / "inner").write_text("")
    file, others = make(tmp_path / "file"), make(tmp_path / "others", owner=0)
    assert set(look(tmp_path, proc).removed) == {str(file), str(folder)}
    assert (file.exists(), folder.exists(), others.exists()) == (False, False, True)


@as_root
def test_a_link_is_removed_and_not_followed(tmp_path: Path, proc: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / "link"
    link.symlink_to(precious)
    os.lchown(link, SOMEBODY, SOMEBODY)
    assert look(tmp_path, proc).removed == (str(link),)
    assert precious.is_dir()


@as_root
def test_nothing_is_removed_while_a_process_of_the_users_lives(tmp_path: Path, proc: Path) -> None:
    file = make(tmp_path / "file")
    (proc / "4711").mkdir()
    os.chown(proc / "4711", SOMEBODY, SOMEBODY)
    assert look(tmp_path, proc) == Swept()
    assert file.exists()


@as_root
def test_what_cannot_be_removed_is_told(tmp_path: Path, proc: Path, monkeypatch) -> None:
    file = make(tmp_path / "file")

    def refuse(*_args, **_options) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", refuse)
    assert look(tmp_path, proc) == Swept(stuck=(str(file),))


@as_root
def test_system_v_memory_of_the_users_is_removed(tmp_path: Path) -> None:
    make_one = f"""
import ctypes, os
os.setgid({SOMEBODY})
os.setuid({SOMEBODY})
assert ctypes.CDLL(None).shmget(0, 4096, 0o600) >= 0
"""
    subprocess.run([sys.executable, "-c", make_one], check=True)
    swept = sweep(user_ids=frozenset({SOMEBODY}), folders=[str(tmp_path)])
    assert len(swept.removed) == 1
    assert swept.removed[0].startswith("System V shm ")
    assert sweep(user_ids=frozenset({SOMEBODY}), folders=[str(tmp_path)]) == Swept()


def test_only_root_looks(tmp_path: Path, proc: Path, monkeypatch) -> None:
    monkeypatch.setattr(cleanup.os, "geteuid", lambda: 1000)
    assert sweep(user_ids=frozenset({os.getuid()}), folders=[str(tmp_path)], proc=proc) == Swept()
    assert proc.exists()


@as_root
def test_what_a_runner_made_for_a_job_that_is_starting_stays(
    tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup.tempfile, "gettempdir", lambda: str(tmp_path))
    kept, other = make(tmp_path / "kernelcup-job-1-2-inside-64999"), make(tmp_path / "other")
    assert look(tmp_path, proc).removed == (str(other),)
    assert kept.exists()
    # The name alone protects nothing elsewhere.
    monkeypatch.setattr(cleanup.tempfile, "gettempdir", lambda: "/elsewhere")
    assert look(tmp_path, proc).removed == (str(kept),)
