"""Starting, watching and ending processes: output caps, a clean environment, nobody left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness_runs import SOURCE

from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.processes import Child, OutputCapture, clean_environment, start
from waiting import all_end

SECONDS = 100.0


@pytest.fixture
def pidfds() -> Iterator[list[int]]:
    """A list for process descriptors: what is still alive is killed at the end."""
    opened: list[int] = []
    yield opened
    for fd in opened:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def captured(data: bytes, *, keep: int, cap: int) -> tuple[OutputCapture, list[str]]:
    reading, writing = os.pipe()
    calls: list[str] = []
    capture = OutputCapture(open(reading, "rb"), keep=keep, cap=cap, on_overflow=lambda: calls.append("over"))  # noqa: SIM115
    with open(writing, "wb") as pipe:
        pipe.write(data)
    return capture, calls


@pytest.mark.parametrize(
    ("size", "text_size", "truncated", "overflows"),
    [(0, 0, False, 0), (10, 10, False, 0), (11, 10, True, 0), (20, 10, True, 0), (21, 10, True, 1)],
)
def test_a_capture_keeps_the_beginning_and_counts_the_rest(
    size: int, text_size: int, truncated: bool, overflows: int
) -> None:
    capture, calls = captured(b"x" * size, keep=10, cap=20)
    output = capture.finish()
    assert (output.text, output.total_bytes, output.truncated) == ("x" * text_size, size, truncated)
    assert len(calls) == overflows


def test_a_capture_overflows_once_however_much_comes() -> None:
    capture, calls = captured(b"x" * (1 << 20), keep=10, cap=20)
    assert capture.finish().total_bytes == 1 << 20
    assert calls == ["over"]


def test_a_capture_shows_any_bytes_as_text() -> None:
    capture, _ = captured("ä".encode() + b"\xff\x00\xc3", keep=100, cap=100)
    output = capture.finish()
    assert output.text == "ä\ufffd\x00\ufffd"
    assert not output.truncated


def test_a_capture_that_nobody_closes_is_not_waited_for() -> None:
    reading, writing = os.pipe()
    capture = OutputCapture(open(reading, "rb"), keep=10, cap=20, on_overflow=lambda: None)  # noqa: SIM115
    os.write(writing, b"so far")
    assert capture.finish(0.0).total_bytes in (0, 6)
    os.close(writing)
    assert capture.finish().text == "so far"


def test_the_environment_is_built_from_nothing(tmp_path: Path) -> None:
    kept = "PATH LANG LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES NCCL_NVLS_ENABLE NVSHMEM_DISABLE_NVLS".split()
    kept += ["TORCH_SYMM_MEM_DISABLE_MULTICAST"]
    dropped = (
        "DISCORD_TOKEN DATABASE_URL AWS_SECRET_ACCESS_KEY KERNELCUP_SECRET POPCORN_SEED POPCORN_FD".split()
    )
    dropped += (
        "PYTHONPATH PYTHONSTARTUP LD_PRELOAD HTTP_PROXY SSH_AUTH_SOCK USER NCCL path HOME TMPDIR".split()
    )
    made = clean_environment(tmp_path / "caches", dict.fromkeys([*kept, *dropped], "value"))
    own = {*processes.CACHE_VARIABLES, "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
    assert {name: value for name, value in made.items() if name not in own} == dict.fromkeys(kept, "value")


def test_every_cache_is_a_folder_of_the_jobs_own(tmp_path: Path) -> None:
    made = clean_environment(tmp_path / "caches", {})
    folders = [Path(made[name]) for name in processes.CACHE_VARIABLES]
    assert len(set(folders)) == len(folders)
    assert all(folder.is_dir() and folder.is_relative_to(tmp_path) for folder in folders)


def python(code: str, *, fds: tuple[int, ...] = (), cap: int = 1 << 20) -> Child:
    argv = [sys.executable, "-I", "-c", code]
    environment = {"PATH": os.environ["PATH"]}
    return start(argv, cwd=Path("/"), environment=environment, fds=fds, keep_output=100, cap_output=cap)


def test_a_started_process_has_only_what_it_was_given() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    code = "import os\nfds = sorted(map(int, os.listdir('/proc/self/fd')))\n"
    code += "open_fds = [fd for fd in fds if os.path.exists(f'/proc/self/fd/{fd}')]\n"
    code += "print(open_fds, os.read(0, 1), sorted(os.environ))"
    child = python(code, fds=(writing,))
    assert child.wait(SECONDS) == 0
    assert child.stdout.finish().text.startswith(f"[0, 1, 2, {writing}] b'' ")
    assert "'PATH']" in child.stdout.finish().text
    os.close(reading)
    os.close(writing)


def test_a_process_that_prints_too_much_is_ended_and_the_reason_kept() -> None:
    child = python("while True: print('x' * 1000)", cap=10_000)
    assert child.wait(SECONDS) == -signal.SIGKILL
    assert child.killed_for == ["output"]
    assert child.stdout.finish().truncated
    child.stderr.finish()


def test_a_process_that_ended_by_itself_was_not_killed_for_anything() -> None:
    child = python("")
    assert child.wait(SECONDS) == 0
    child.kill("time")
    assert child.killed_for == []


FAMILY = """
import os, subprocess, sys
code = "import signal; signal.pause()"
first = subprocess.Popen([sys.executable, "-I", "-c", code])
second = subprocess.Popen([sys.executable, "-I", "-c", code], start_new_session=True)
os.write({fd}, b"%d %d" % (first.pid, second.pid))
import signal
signal.pause()
"""


def test_a_tree_is_ended_with_its_grandchildren(pidfds: list[int]) -> None:
    reading, writing = os.pipe()
    child = python(FAMILY.format(fd=writing), fds=(writing,))
    os.close(writing)
    pids = list(map(int, os.read(reading, 100).split()))
    os.close(reading)
    pidfds += [os.pidfd_open(pid) for pid in pids]
    assert sorted(processes.descendants(child.process.pid)) == sorted(pids)
    processes.kill_tree(child.process.pid)
    assert child.wait(SECONDS) == -signal.SIGKILL
    assert all_end(pidfds)


ORPHAN = """
import os, signal, sys
sys.path.insert(0, {source!r})
from kernelcup_harness.isolation import processes
processes.adopt_orphans()
pid = os.fork()
if pid == 0:
    if os.fork() == 0:
        os.setsid()
        os.write(1, b"%d " % os.getpid())
        signal.pause()
    os._exit(0)
os.waitpid(pid, 0)
os.read(0, 1)
processes.kill_descendants()
os.write(1, b"left:%d" % len(processes.descendants(os.getpid())))
"""


def test_an_orphan_in_a_session_of_its_own_is_found_and_ended(pidfds: list[int]) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-c", ORPHAN.format(source=str(SOURCE))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as runner:
        pidfds.append(os.pidfd_open(int(runner.stdout.read(20))))
        runner.stdin.write(b"x")
        assert runner.stdout.read(20) == b"left:0"
        assert all_end(pidfds)


TIED = """
import os, signal, sys
sys.path.insert(0, {source!r})
from kernelcup_harness.isolation import processes
parent = os.getpid()
pid = os.fork()
if pid == 0:
    processes.die_with_parent(parent if {tied} else 1)
    os.write(1, b"alive")
    signal.pause()
os.write(1, b"%d " % pid)
signal.pause()
"""


def test_a_process_that_is_tied_ends_with_its_parent(pidfds: list[int]) -> None:
    argv = [sys.executable, "-I", "-c", TIED.format(source=str(SOURCE), tied=True)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0) as runner:
        text = b""
        while b"alive" not in text or b" " not in text:
            text += runner.stdout.read(20)
        pidfds.append(os.pidfd_open(int(text.replace(b"alive", b""))))
        runner.kill()
        assert all_end(pidfds)


def test_a_process_whose_parent_is_gone_already_ends_at_once() -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
    code += "from kernelcup_harness.isolation import processes\nprocesses.die_with_parent(1)\nprint('alive')"
    finished = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (1, "")


def test_limits_reach_the_children() -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
    code += "from kernelcup_harness.isolation import processes\nimport resource, subprocess\n"
    code += "processes.limit_resources(1 << 30)\n"
    code += "subprocess.run(['/bin/sh', '-c', 'ulimit -c; ulimit -d'])"
    finished = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["0", str(1 << 20)]


def test_private_memory_counts_the_children() -> None:
    code = "import os\nkept = bytearray(64 << 20)\nkept[::4096] = b'x' * len(kept[::4096])\n"
    code += "if os.fork():\n    os.wait()\nelse:\n    more = bytearray(b'y' * (64 << 20))\n"
    code += "    os.write(1, b'x'); os.read({fd}, 1)"
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-I", "-c", code.format(fd=reading)], stdout=subprocess.PIPE, pass_fds=[reading]
    ) as family:
        family.stdout.read(1)
        assert processes.private_memory(family.pid) >= 128 << 20
        os.write(writing, b"x")
    os.close(reading)
    os.close(writing)


def test_the_memory_of_a_process_that_is_not_there_is_nothing() -> None:
    assert processes.private_memory(2**22 + 1) == 0


def test_the_command_line_of_a_child_keeps_the_working_folder_out(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(77)")
    argv = processes.python_argv("kernelcup_harness.isolation.processes", "total_memory")
    environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    assert subprocess.run(argv, cwd=tmp_path, env=environment, check=False).returncode == 0
