"""The pool of waiting runners: with a stand-in for the harness that takes no time to start."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kernelcup_harness
from kernelcup_harness.pool import job_socket
from kernelcup_harness.pool.pool import Key, Pool, Runner

SECONDS = 100.0
SOURCE = str(Path(kernelcup_harness.__file__).parent.parent)
BEGIN = f"import os, sys; sys.path.insert(0, {SOURCE!r})\n"
BEGIN += "from kernelcup_harness.isolation import processes\nfrom kernelcup_harness.pool import job_socket\n"
BEGIN += "processes.die_with_parent(os.getppid())\n"
# It says that it is ready, and its job's text once it has it.
STAND_IN = (
    BEGIN
    + """\
print('{"ready": true}', flush=True)
text = job_socket.read_job("-")
if text is not None:
    print(text.decode(), flush=True)
    sys.stdin.read()
"""
)
KEY = Key.of("cpu", {"PATH": os.environ["PATH"]})

MakePool = Callable[..., Pool]


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    pools = []

    def make(script: str = STAND_IN, *, version: Callable[[], str] = lambda: "1", **options: object) -> Pool:
        pools.append(Pool((sys.executable, "-P", "-c", script, "-"), version=version, **options))  # type: ignore[arg-type]
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def filled(pool: Pool, count: int = 1, key: Key = KEY) -> list[Runner]:
    pool.keep(key, count)
    assert pool.wait_until_ready(key, SECONDS)
    return pool.waiting(key)


def told(runner: Runner, text: str) -> bytes:
    """Give a runner a job and return what it says to it."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        job_socket.send(runner.channel, file.fileno())
    return os.read(runner.output, 100)


def has_ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], SECONDS)[0])


def test_a_runner_waits_is_used_once_and_replaced(make_pool: MakePool) -> None:
    pool = make_pool()
    (first,) = filled(pool)
    with pool.job(KEY) as runner:
        assert runner is first
        assert told(first, "a job") == b"a job\n"
    assert first.process.returncode is not None
    assert pool.wait_until_ready(KEY, SECONDS)
    assert pool.waiting(KEY)[0].process.pid != first.process.pid


def test_nothing_is_started_while_a_job_runs_in_the_same_place(make_pool: MakePool) -> None:
    pool = make_pool()
    filled(pool)
    with pool.job(KEY), pool.job(KEY) as second:
        assert second is None
        other = Key.of("cuda", {"CUDA_VISIBLE_DEVICES": "1"})
        filled(pool, key=other)  # what starts elsewhere does not wait for it
        assert pool.waiting(KEY) == []
    assert pool.wait_until_ready(KEY, SECONDS)


def test_it_may_be_told_to_start_runners_beside_a_job(make_pool: MakePool) -> None:
    pool = make_pool(while_busy=True)
    filled(pool)
    with pool.job(KEY):
        assert pool.wait_until_ready(KEY, SECONDS)
        assert len(pool.waiting(KEY)) == 1


def test_a_job_that_can_use_none_leaves_them_waiting(make_pool: MakePool) -> None:
    pool = make_pool()
    before = filled(pool)
    with pool.job(KEY, wanted=False) as runner:
        assert runner is None
    assert pool.waiting(KEY) == before


def test_a_runner_that_dies_while_it_waits_is_replaced(make_pool: MakePool) -> None:
    pool = make_pool()
    pool._retry_at = NoRetry()
    (first,) = filled(pool)
    pidfd = os.pidfd_open(first.process.pid)
    first.process.kill()
    assert has_ended(pidfd)
    with pool._changed:
        assert pool._changed.wait_for(lambda: first not in pool._waiting, SECONDS)
    assert pool.wait_until_ready(KEY, SECONDS)


class NoRetry(dict[Key, float]):
    """No runner is waited for before the next is tried."""

    def __setitem__(self, key: Key, moment: float) -> None:
        super().__setitem__(key, 0.0)


def test_where_none_can_start_the_job_gets_none_and_the_log_says_why(
    make_pool: MakePool, caplog: pytest.LogCaptureFixture
) -> None:
    pool = make_pool("import sys; sys.exit('no torch here')")
    pool.keep(KEY, 1)
    with pool._changed:
        assert pool._changed.wait_for(lambda: KEY in pool._retry_at, SECONDS)
    with pool.job(KEY) as runner:
        assert runner is None
    assert "no torch here" in caplog.text


def test_runners_of_another_harness_are_not_used(make_pool: MakePool) -> None:
    versions = ["1"]
    pool = make_pool(version=lambda: versions[0])
    (old,) = filled(pool)
    pidfd = os.pidfd_open(old.process.pid)
    versions[0] = "2"
    with pool.job(KEY) as runner:
        assert runner is None
    assert has_ended(pidfd)
    assert pool.wait_until_ready(KEY, SECONDS)
    with pool.job(KEY) as runner:
        assert runner.version == "2"


def test_a_runner_that_has_waited_for_too_long_is_replaced(make_pool: MakePool) -> None:
    pool = make_pool(max_age_s=0.5)
    (old,) = filled(pool)
    pidfd = os.pidfd_open(old.process.pid)
    assert has_ended(pidfd)


def test_a_closed_pool_leaves_no_process(make_pool: MakePool) -> None:
    pool = make_pool()
    pidfds = [os.pidfd_open(runner.process.pid) for runner in filled(pool, 3)]
    pool.close()
    assert all(select.select([pidfd], [], [], 0.0)[0] for pidfd in pidfds)
    assert not pool._thread.is_alive()


def test_a_job_that_runs_when_the_pool_is_closed_goes_on(make_pool: MakePool) -> None:
    pool = make_pool()
    filled(pool)
    with pool.job(KEY) as runner:
        pool.close()
        assert runner is not None
        assert told(runner, "still here") == b"still here\n"


def test_a_service_that_is_killed_leaves_no_runner() -> None:
    script = f"""\
import os, sys
sys.path.insert(0, {SOURCE!r})
from kernelcup_harness.pool.pool import Key, Pool
pool = Pool((sys.executable, "-P", "-c", {STAND_IN!r}, "-"), version=lambda: "1")
key = Key.of("cpu", {{}})
pool.keep(key, 2)
assert pool.wait_until_ready(key, {SECONDS})
print(*(runner.process.pid for runner in pool.waiting(key)), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        pidfds = [os.pidfd_open(int(text)) for text in service.stdout.readline().split()]
        assert len(pidfds) == 2
        service.kill()
    assert all(map(has_ended, pidfds))
