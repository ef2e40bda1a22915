"""What a process does that has to wait for its job."""

from __future__ import annotations

import inspect
import os
import socket
import sys
import threading
from pathlib import Path

import pytest
import torch

from kernelcup_harness import judge_process
from kernelcup_harness.device.nvidia import driver
from kernelcup_harness.run import startup
from kernelcup_harness.wire.channel import Channel


@pytest.fixture
def ends() -> tuple[Channel, Channel]:
    ours, theirs = socket.socketpair()
    return Channel(ours, max_bytes=1 << 16), Channel(theirs, max_bytes=1 << 16)


def test_a_judge_that_waits_imports_what_deterministic_algorithms_need(
    ends: tuple[Channel, Channel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge_process.WHILE_IDLE[-1] == judge_process.NEEDED
    assert f"import {judge_process.NEEDED}" in inspect.getsource(torch.use_deterministic_algorithms)
    imported, says_so = os.pipe()
    (tmp_path / "takes_seconds.py").write_text(f"import os\nos.write({says_so}, b'x')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    runner, waits = ends
    got = []
    thread = threading.Thread(
        target=lambda: got.append(startup.started_and_wait(waits, (), ("takes_seconds",), idle_s=0.0))
    )
    thread.start()
    assert runner.receive()["type"] == "started"
    assert os.read(imported, 1) == b"x"
    runner.send({"type": "job"})
    thread.join()
    assert got == [{"type": "job"}]
    os.close(imported)
    os.close(says_so)
    runner.close()
    waits.close()


def test_a_job_that_comes_while_modules_are_imported_waits_for_one_of_them(
    ends: tuple[Channel, Channel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported, says_so = os.pipe()
    begin, go_on = os.pipe()
    text = f"import os\nos.write({says_so}, b'x')\nos.read({begin}, 1)\n"
    (tmp_path / "first_part.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    runner, waits = ends
    parts, got = ("no_such_part", "first_part", "no_other_part"), []
    thread = threading.Thread(
        target=lambda: got.append(startup.started_and_wait(waits, (), parts, idle_s=0.0))
    )
    seen: list[str] = []
    real = startup.importlib.import_module
    monkeypatch.setattr(startup.importlib, "import_module", lambda name: (seen.append(name), real(name))[1])
    thread.start()
    assert runner.receive()["type"] == "started"
    assert os.read(imported, 1) == b"x"
    runner.send({"type": "job"})
    os.write(go_on, b"x")
    thread.join()
    assert got == [{"type": "job"}]
    assert seen == ["torch", "no_such_part", "first_part"]
    for fd in (imported, says_so, begin, go_on):
        os.close(fd)
    runner.close()
    waits.close()


def test_a_job_that_comes_at_once_waits_for_no_further_import(ends: tuple[Channel, Channel]) -> None:
    runner, waits = ends
    runner.send({"type": "job"})
    assert startup.started_and_wait(waits, (), ("no_such_module",)) == {"type": "job"}
    assert "no_such_module" not in sys.modules
    runner.close()
    waits.close()


def test_a_driver_is_initialized_only_where_there_is_one() -> None:
    class Library:
        def __init__(self, code: int) -> None:
            self.code = code

        def cuInit(self, flags: int) -> int:  # noqa: N802
            return self.code + flags

    def missing(_name: str) -> object:
        raise OSError("libcuda.so.1: cannot open shared object file")

    assert driver.initialize(lambda _name: Library(0))
    assert not driver.initialize(lambda _name: Library(100))
    assert not driver.initialize(lambda _name: object())
    assert not driver.initialize(missing)
