"""Runners that start before their job: what they say, what fits them, and what is left of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness_runs import LONGEST_RUN_S, command, make_spec, own_spec, quick_spec, run

from kernelcup import tasks
from kernelcup_harness.isolation import priority, processes, sandbox
from kernelcup_harness.pool import job_socket
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    Limits,
    Mode,
    RunReport,
    StageName,
    Verdict,
    dumps,
    from_json,
)
from kernelcup_harness.run.workers import Workers

DOUBLE = "def custom_kernel(data):\n    return data * 2\n"
EXAMPLE = Path(tasks.__file__).parent / "examples/all_reduce"
ALL_REDUCE: dict[str, Any] = {
    "sources": {name: (EXAMPLE / name).read_text() for name in ("reference.py", "task.py")},
    "private_files": ["reference.py"],
    "submission": (EXAMPLE / "template.py").read_text(),
    "multi_gpu": True,
    "tests": [{"size": 1000, "world_size": 2, "seed": 1}],
    "benchmarks": [],
    "mode": Mode.TEST,
}
AHEAD = ("--events", "--die-with-parent", "--ahead", "emulated")


@contextmanager
def ahead(*options: str) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """Return a runner that is ready, and the socket that brings it its job."""
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen(
            command(*AHEAD, *options),
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with child, ours:
        try:
            assert child.stdout is not None
            assert json.loads(child.stdout.readline()) == {"ready": True}
            yield child, ours
        finally:
            child.kill()


def give(channel: socket.socket, spec: JobSpec, *kept: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(dumps(spec).encode())
        file.seek(0)
        job_socket.send(channel, file.fileno(), kept)


def answer(child: subprocess.Popen[str]) -> tuple[RunReport, list[dict[str, Any]]]:
    out, log = child.communicate(timeout=LONGEST_RUN_S)
    assert child.returncode == 0, log[-3000:]
    *events, last = map(json.loads, out.splitlines())
    return from_json(RunReport, last["report"]), events


def judged(spec: JobSpec) -> RunReport:
    """Give a job to a runner that waits."""
    with ahead() as (child, channel):
        give(channel, spec)
        return answer(child)[0]


@pytest.mark.jobs
def test_a_waiting_runner_judges_without_starting_anything_and_holds_its_locks_to_its_end() -> None:
    reading, writing = os.pipe()
    with ahead() as (child, channel):
        assert processes.descendants(child.pid)
        give(channel, quick_spec(DOUBLE, mode=Mode.LEADERBOARD), writing)
        os.close(writing)
        report, events = answer(child)
        # The end of the pipe comes when the last copy of its other end is closed.
        assert os.read(reading, 1) == b""
    os.close(reading)
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert (report.phases["start"], report.phases["import"]) == (0.0, 0.0)
    assert report.phases["hand-over"] > 0.0
    assert events[0]["event"] == "stage"


@pytest.mark.jobs
def test_a_waiting_runner_of_several_gpus_judges_without_starting_anything() -> None:
    with ahead("--ranks", "2") as (child, channel):
        give(channel, make_spec(**ALL_REDUCE))
        report, _ = answer(child)
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert report.environment["ranks"]["count"] == 2
    assert (report.phases["start"], report.phases["import"]) == (0.0, 0.0)


@pytest.mark.jobs
def test_a_submission_that_names_a_switch_of_the_operators_is_rejected_before_its_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "import os\nos.environ['NCCL_NVLS_ENABLE'] = '1'\nraise ImportError('imported')\n"
    spec = make_spec(**ALL_REDUCE | {"submission": text})
    assert run(spec).report.verdict is Verdict.RUNTIME_ERROR
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    report = run(spec).report
    assert (report.verdict, report.stage) == (Verdict.REJECTED, StageName.IMPORT)
    assert "names NCCL_NVLS_ENABLE, which this machine's operator has set" in report.message


@pytest.mark.jobs
def test_limits_of_the_job_are_in_force_although_the_process_is_older() -> None:
    limits = Limits(memory_bytes=1 << 30, output_bytes=1000)
    text = """\
import json, resource
print("data=" + json.dumps(resource.getrlimit(resource.RLIMIT_DATA)), flush=True)
def custom_kernel(data):
    while True:
        print("x" * 2000, flush=True)
"""
    report = judged(quick_spec(text, limits=limits))
    assert f"data=[{1 << 30}, {1 << 30}]" in report.stdout.text
    assert report.verdict is Verdict.OUTPUT_LIMIT_EXCEEDED


@pytest.mark.jobs
@pytest.mark.skipif(not sandbox.is_there(), reason="nothing is compiled beforehand without a sandbox")
def test_a_process_that_waited_has_its_files_no_private_one_and_what_was_compiled() -> None:
    text = (
        """\
# cpp_extension
import os, pathlib
kept = pathlib.Path(os.environ["TORCH_EXTENSIONS_DIR"], "made")
found = kept.exists()
kept.parent.mkdir(parents=True, exist_ok=True)
kept.write_text("by the build")
from part.helper import FACTOR
print(f"found={found} files={sorted(os.listdir('.'))}", flush=True)
"""
        + DOUBLE
    )
    sources = {**quick_spec("").sources, "part/helper.py": "FACTOR = 2\n"}
    report = judged(quick_spec(text, sources=sources))
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert report.stdout.text == "found=True files=['part', 'submission.py']\n"
    assert report.phases["build"] > 0.0


@pytest.mark.jobs
def test_a_job_for_an_own_harness_gets_a_process_of_its_own() -> None:
    main = "import os\nwith open(int(os.environ['POPCORN_FD']), 'w') as pipe:\n"
    main += "    pipe.write('test-count: 1\\ntest.0.status: pass\\ncheck: pass\\n')\n"
    report = judged(own_spec(main))
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert report.phases.get("start") != 0.0


@pytest.mark.jobs
def test_a_job_that_does_not_fit_gets_processes_of_its_own_and_hears_how_long_their_start_took() -> None:
    report = judged(quick_spec(DOUBLE, backend=Backend.CPU))
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert min(report.phases[each] for each in ("start", "import", "end")) > 0.0


@pytest.mark.parametrize(
    ("ranks", "spec", "boxed", "fits"),
    [
        (0, {}, True, True),
        (0, {"backend": Backend.CPU}, True, False),
        (0, {}, False, False),
        (0, {"multi_gpu": True}, True, False),
        (2, {"multi_gpu": True}, True, True),
        (2, {}, True, False),
    ],
)
def test_only_a_job_of_its_backend_and_with_its_sandbox_fits_workers_started_ahead(
    ranks: int, spec: dict[str, Any], boxed: bool, fits: bool
) -> None:
    workers = Workers.__new__(Workers)  # without processes
    workers.backend, workers.boxed, workers._stopped, workers._by_role = Backend.EMULATED, True, False, {}
    workers.ranks = ranks
    assert workers.fits(quick_spec(DOUBLE, **spec), boxed=boxed) == fits


@pytest.mark.jobs
def test_workers_that_have_died_meanwhile_are_replaced() -> None:
    with ahead() as (child, channel):
        family = processes.descendants(child.pid)
        ends = [os.pidfd_open(pid) for pid in family]
        for pid in family:
            os.kill(pid, signal.SIGKILL)
        # Who has much memory takes a while to die.
        assert_gone(ends)
        give(channel, quick_spec(DOUBLE))
        report, _ = answer(child)
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert report.phases["start"] > 0.0


@pytest.mark.jobs
def test_a_runner_in_the_background_has_torch_and_the_usual_priority_and_leaves_nothing() -> None:
    with ahead("--background") as (child, channel):
        members = processes.descendants(child.pid)
        family = [os.pidfd_open(pid) for pid in members]
        maps = []
        for pid in members:
            with contextlib.suppress(OSError):
                maps.append(Path(f"/proc/{pid}/maps").read_text())
        assert sum("libtorch_cpu" in text for text in maps) == 2  # judge and contestant
        for pid in [child.pid, *members] if priority.can_be_raised() else []:
            for thread in os.listdir(f"/proc/{pid}/task"):
                assert os.getpriority(os.PRIO_PROCESS, int(thread)) == 0
        channel.close()
        assert child.communicate(timeout=LONGEST_RUN_S)[0] == ""
        assert child.returncode == 0
        assert_gone(family)
        assert not list(Path(tempfile.gettempdir()).glob(f"kernelcup-job-*-{child.pid}-*"))


@pytest.mark.jobs
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_waiting_runner_that_is_ended_takes_all_with_it(number: signal.Signals) -> None:
    with ahead() as (child, _):
        family = [os.pidfd_open(pid) for pid in processes.descendants(child.pid)]
        assert len(family) >= 2  # judge and contestant; bubblewrap is a process more for each
        child.send_signal(number)
        child.communicate(timeout=LONGEST_RUN_S)
        assert_gone(family)


def assert_gone(pidfds: list[int]) -> None:
    """Wait for the ends of processes."""
    import select

    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 30.0)[0]
        os.close(pidfd)


@pytest.mark.jobs
def test_the_job_may_come_as_text() -> None:
    finished = run(quick_spec(DOUBLE), argv=command("--events", "--ahead", "emulated"))
    assert finished.events[0] == {"ready": True}
    assert finished.report.verdict is Verdict.ACCEPTED
    assert finished.report.phases["start"] == 0.0
