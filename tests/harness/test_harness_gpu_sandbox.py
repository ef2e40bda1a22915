"""A GPU in the sandbox of Landlock: what the CUDA driver needs there, and what is said if it does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness_runs import quick_spec

from kernelcup_harness.device.nvidia import accelerator
from kernelcup_harness.isolation import sandbox, seccomp
from kernelcup_harness.protocol import Backend, JobSpec
from kernelcup_harness.run import runner
from kernelcup_harness.run.workers import NotStarted

DRIVER = """
import socket

def code_of(step):
    try:
        step()
    except OSError as error:
        return error.errno
    return 0

# What the CUDA driver does when it starts.
made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
made.bind("\\0kernelcup-test-" + str(__import__("os").getpid()))
made.listen(16)
assert code_of(made.accept) == 1, "answers whoever connects"
other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
assert code_of(lambda: other.connect("/run/systemd/notify")) == 1, "connects"
assert code_of(lambda: other.bind("door")) == 13, "binds a file"
assert code_of(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) == 93, "sends to any name"
assert code_of(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)) == 97, "has a network"
left, right = socket.socketpair()
left.send(b"1")
assert right.recv(1) == b"1"
"""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget what was tried."""
    accelerator.sandbox_trouble.cache_clear()
    yield
    accelerator.sandbox_trouble.cache_clear()


def under_landlock(program: str, *, gpu: bool) -> bool:
    """Return whether a program succeeds under Landlock."""
    if not sandbox.landlock_works():
        pytest.skip("no Landlock here")
    devices = accelerator.Nvidia().nodes(os.environ) if gpu else None
    reads_all = not sandbox.python_runs(reads_all=False)
    argv = [sys.executable, "-I", "-S", "-c", program]
    return sandbox.runs(sandbox.Kind.LANDLOCK, argv, reads_all=reads_all, devices=devices)


def test_the_cuda_drivers_socket_can_listen_and_reach_nothing() -> None:
    assert under_landlock(DRIVER, gpu=True)


def test_without_a_gpu_no_socket_can_be_made_at_all() -> None:
    program = "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)"
    assert not under_landlock(program, gpu=False)
    assert under_landlock(program, gpu=True)


def test_a_sandbox_with_namespaces_has_the_same_filter_with_and_without_a_gpu() -> None:
    assert seccomp.program("x86_64", gpu=True) == seccomp.program("x86_64")
    assert seccomp.program("x86_64", isolated=False, gpu=True) != seccomp.program("x86_64", isolated=False)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine with a GPU and Landlock, where CUDA does not start."""
    monkeypatch.setattr(sandbox, "kind", lambda **_: sandbox.Kind.LANDLOCK)
    monkeypatch.setattr(sandbox, "python_runs", lambda **_: True)
    monkeypatch.setattr(sandbox, "runs", lambda *_, **__: False)
    monkeypatch.setattr(Path, "exists", lambda _path: True)
    return "apt-get install bubblewrap"


def test_where_cuda_does_not_start_gpu_jobs_are_refused_with_what_to_install(refused: str) -> None:
    spec: JobSpec = quick_spec("", backend=Backend.CUDA)
    assert refused in str(runner.cannot_run(spec, boxed=True))
    assert runner.cannot_run(spec, boxed=False) is None
    assert runner.cannot_run(quick_spec("", backend=Backend.CPU), boxed=True) is None
    with pytest.raises(NotStarted, match=refused), runner.started_ahead(Backend.CUDA):
        pass


def test_where_it_starts_nothing_is_refused(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "runs", lambda *_, **__: True)
    assert accelerator.sandbox_trouble() == ""


def test_the_trial_fails_where_there_is_no_driver() -> None:
    done = subprocess.run([sys.executable, "-c", accelerator.CUDA_TRIAL], capture_output=True, check=False)
    assert done.returncode != 0
