from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelcup_harness
from builders import make_device, make_report, make_spec
from fakes import FakeGpuProbe
from kernelcup.domain import Device
from kernelcup.errors import BadReport, LaunchCancelled, LaunchError, UnfitDevice
from kernelcup.launchers.base import Event, LaunchResult
from kernelcup.launchers.gpu_health.checks import Hygiene
from kernelcup.launchers.gpu_health.probe import MIB, GpuProcess
from kernelcup.launchers.local.gpu_locks import Slots
from kernelcup.launchers.local.launcher import COMMAND, LocalLauncher, child_environ
from kernelcup.launchers.local.warm_runners import waiting_runners
from kernelcup_harness.protocol import Backend, JobSpec, Mode, SandboxPolicy, dumps
from waiting import all_end

REPORT = make_report(job_id="1.1", mode=Mode.TEST, backend=Backend.EMULATED, stages=[])

# What stands in for the harness: `spec` is what it was given, `say` writes one line.
PRELUDE = f"""
import json, os, signal, subprocess, sys, threading
spec = json.load(sys.stdin)
def say(**message):
    print(json.dumps(message), flush=True)
report = {dumps(REPORT)!r}
def finish():
    print('{{"report":' + report + '}}', flush=True)
"""


@pytest.fixture
def launch(tmp_path: Path):
    """Return a function that runs a harness made of the given lines."""

    def run(body: str, *, spec=None, cancelled=None, on_event=None, device=None, **options) -> LaunchResult:
        launcher = LocalLauncher(
            runtime_dir=tmp_path / "run",
            environ=options.pop("environ", os.environ),
            command=options.pop("command", (sys.executable, "-c", PRELUDE + body)),
            **options,
        )
        return launcher.run(
            spec or make_spec(),
            device or make_device(),
            on_event=on_event or (lambda _: None),
            cancelled=cancelled or threading.Event(),
        )

    return run


def test_the_harness_is_given_the_whole_job(launch) -> None:
    events = []
    spec = make_spec(sources={"reference.py": "#" * 1_000_000})
    launch('say(event=len(spec["sources"]["reference.py"])); finish()', spec=spec, on_event=events.append)
    assert events == [{"event": 1_000_000}]


def test_much_output_on_both_pipes_does_not_block(launch) -> None:
    events = []
    body = """
for n in range(2000):
    sys.stderr.write("x" * 1000)
    say(event="e" * 1000)
finish()
"""
    launch(body, on_event=events.append)
    assert len(events) == 2000


def test_a_report_without_a_line_break_at_its_end_is_read(launch) -> None:
    assert launch("sys.stdout.write('{\"report\":' + report + '}')").report == REPORT


def test_a_report_counts_even_if_the_harness_stumbles_on_its_way_out(launch) -> None:
    assert launch("finish(); sys.exit(3)").report == REPORT


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("pass", "ended with 0 and no report"),
        (
            "sys.stderr.write('out of coffee'); sys.exit(3)",
            "ended with 3 and no report; its log: out of coffee",
        ),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended with -11 and no report"),
        ("print('hello')", "not JSON: b'hello'"),
        ("print('[' * 100000)", "not JSON"),
        ("print('[1]')", "neither an event nor a report"),
        ("say(hello=1)", "neither an event nor a report"),
        ("say(report={})", "cannot be read: RunReport.job_id: missing"),
        ("say(report=None)", "cannot be read: RunReport: expected an object"),
    ],
)
def test_a_harness_that_makes_no_sense_is_a_failed_launch(launch, body: str, text: str) -> None:
    with pytest.raises(BadReport) as caught:
        launch(body)
    assert text in str(caught.value)


def test_a_line_without_end_is_cut_off(launch, monkeypatch) -> None:
    monkeypatch.setattr("kernelcup.launchers.local.harness_output.LineBuffer.__init__.__defaults__", (1000,))
    with pytest.raises(BadReport, match="more than 1,000 bytes"):
        launch("while True: sys.stdout.write('x' * 100)")


def test_a_harness_that_cannot_be_started_is_a_failed_launch(launch) -> None:
    with pytest.raises(LaunchError, match="cannot be started"):
        launch("", command=["/nonexistent"])


def test_a_cancelled_run_leaves_nothing_behind(launch) -> None:
    cancelled = threading.Event()
    handles = []

    def on_event(event) -> None:
        handles.extend(map(os.pidfd_open, event["event"]))
        cancelled.set()

    body = """
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
say(event=[os.getpid(), child.pid])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pause()
"""
    with pytest.raises(LaunchCancelled):
        launch(body, cancelled=cancelled, on_event=on_event)
    assert len(handles) == 2
    assert all_end(handles)


def test_a_process_that_keeps_the_pipes_does_not_hold_up_the_report(launch) -> None:
    handles = []
    body = """
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
say(event=child.pid)
finish()
"""
    assert launch(body, on_event=lambda event: handles.append(os.pidfd_open(event["event"]))).report == REPORT
    assert all_end(handles)


# What stands in for a harness that waits for its job.
WAITS = f"""
import json, sys
sys.path.insert(0, {str(Path(kernelcup_harness.__file__).parent.parent)!r})
from kernelcup_harness.pool import job_socket as waiting
if "--ahead" in sys.argv:
    print('{{"ready": true}}', flush=True)
text = waiting.read_job("-")
if text is not None:
    print(json.dumps({{"event": "given", "id": json.loads(text)["job_id"], "argv": sys.argv}}), flush=True)
    print('{{"report":' + {dumps(REPORT)!r} + '}}', flush=True)
"""


DEVICE = make_device(name="emulated", backend=Backend.EMULATED)


@pytest.fixture
def warm(tmp_path: Path, monkeypatch) -> Iterator[LocalLauncher]:
    """Return a launcher whose harness waits for jobs on the device of the tests."""
    # Somebody may work on the harness's text while this runs.
    monkeypatch.setattr("kernelcup.launchers.local.warm_runners.harness_hash", lambda _: "the same")
    launcher = LocalLauncher(
        runtime_dir=tmp_path, environ=os.environ, command=(sys.executable, "-c", WAITS, "-"), warm=1
    )
    launcher.keep_ready([DEVICE])
    assert launcher.wait_until_ready(30.0)
    yield launcher
    launcher.close()


def judged(launcher: LocalLauncher, spec: JobSpec, device: Device = DEVICE) -> list[Event]:
    events: list[Event] = []
    result = launcher.run(spec, device, on_event=events.append, cancelled=threading.Event())
    assert result.report == REPORT
    return events


def test_a_job_is_given_to_a_harness_that_waits_and_the_next_to_another(warm) -> None:
    for _ in range(2):
        (event,) = judged(warm, make_spec())
        assert event["id"] == "1.1"
        assert event["argv"][1:] == ["--ahead", "emulated", "-"]
        assert warm.wait_until_ready(30.0)


def test_on_several_gpus_only_jobs_of_as_many_ranks_are_given_to_a_harness_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.launchers.local.warm_runners.harness_hash", lambda _: "the same")
    device = make_device(name="emulatedx2", backend=Backend.EMULATED)
    launcher = LocalLauncher(
        runtime_dir=tmp_path, environ=os.environ, command=(sys.executable, "-c", WAITS, "-"), warm=1
    )
    launcher.keep_ready([device])
    assert launcher.wait_until_ready(30.0)
    (ranks,) = judged(launcher, make_spec(multi_gpu=True), device)
    (single,) = judged(launcher, make_spec(), device)
    launcher.close()
    assert ranks["argv"][1:] == ["--ahead", "emulated", "--ranks", "2", "-"]
    assert "--ahead" not in single["argv"]


def test_a_job_without_a_sandbox_is_given_to_none_that_waits(warm) -> None:
    (event,) = judged(warm, make_spec(sandbox=SandboxPolicy.NONE))
    assert "--ahead" not in event["argv"]


def test_a_job_runs_although_the_harness_that_waited_is_gone(warm) -> None:
    warm.close()
    (event,) = judged(warm, make_spec())
    assert "--ahead" not in event["argv"]


def test_only_gpus_have_a_harness_waiting_unless_it_is_said() -> None:
    devices = [DEVICE, make_device(name="H100", slots=2)]
    assert waiting_runners(devices, None) == {"emulated": 0, "H100": 2}
    assert waiting_runners(devices, 2) == {"emulated": 2, "H100": 4}


def test_a_run_sees_its_own_gpu_only(launch) -> None:
    events = []
    gpus = {"H100": ["3"]}
    body = "say(event=os.environ.get('CUDA_VISIBLE_DEVICES')); finish()"
    launch(body, gpus=gpus, environ={}, on_event=events.append)
    with pytest.raises(BadReport, match="backend"):  # the stand-in always reports `emulated`
        launch(body, spec=make_spec(backend=Backend.CUDA), gpus=gpus, environ={}, on_event=events.append)
    assert events == [{"event": None}, {"event": "3"}]


def test_the_harness_gets_no_secrets_from_our_environment() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "CUDA_HOME": "/cuda",
        "NCCL_DEBUG": "INFO",
        "KERNELCUP_DATABASE": "postgresql://me:secret@host/db",
        "DISCORD_TOKEN": "secret",
        "PYTHONPATH": "/evil",
    }
    kept = ["CUDA_HOME", "HOME", "NCCL_DEBUG", "PATH"]
    assert sorted(child_environ(environ)) == kept
    assert child_environ(environ, gpus=["1", "2"])["CUDA_VISIBLE_DEVICES"] == "1,2"


def test_the_harness_is_told_to_die_with_us() -> None:
    assert COMMAND[:4] == (sys.executable, "-P", "-m", "kernelcup_harness")
    assert "--die-with-parent" in COMMAND


class OnGpu:
    """A launcher whose one device has two GPUs, and a harness whose GPU job changes what they show."""

    def __init__(self, folder: Path) -> None:
        self.probe = FakeGpuProbe("0", "1")
        self.device = make_device(slots=2)
        spec = make_spec(backend=Backend.CUDA)
        report = make_report(job_id=spec.job_id, mode=spec.mode, backend=Backend.CUDA, stages=[])
        self.spec = spec
        self.launcher = LocalLauncher(
            runtime_dir=folder / "run",
            environ={},
            gpus={"H100": ["0", "1"]},
            command=(
                sys.executable,
                "-c",
                f"""
import json
print(json.dumps({{"event": "stage"}}), flush=True)
print('{{"report":' + {dumps(report)!r} + '}}', flush=True)
""",
            ),
            hygiene=Hygiene(self.probe, patience_s=0.0),
        )

    def run(self, **during) -> LaunchResult:
        return self.launcher.run(
            self.spec,
            self.device,
            on_event=lambda _: self.probe.set("0", **during),
            cancelled=threading.Event(),
        )


@pytest.fixture
def on_gpu(tmp_path: Path) -> OnGpu:
    return OnGpu(tmp_path)


def test_a_gpu_is_looked_at_before_and_after_a_job(on_gpu: OnGpu) -> None:
    assert on_gpu.run().unfit is None
    assert on_gpu.probe.reads == 2
    assert on_gpu.launcher.capacity(on_gpu.device) == 2


def test_a_job_for_the_processor_is_not_held_up_by_a_gpu(on_gpu: OnGpu) -> None:
    on_gpu.probe.broken = "lost"
    on_gpu.spec = make_spec(backend=Backend.EMULATED)
    with pytest.raises(BadReport, match="backend"):  # the stand-in always reports `cuda`
        on_gpu.run()
    assert on_gpu.probe.reads == 0


def test_an_unfit_gpu_gets_no_job_and_is_left_out(on_gpu: OnGpu) -> None:
    on_gpu.probe.set("0", processes=(GpuProcess(pid=9, name="x"),))
    with pytest.raises(UnfitDevice, match="GPU 0 before the job: used by process 9") as caught:
        on_gpu.run()
    assert (caught.value.gpus, caught.value.spoils) == (("0",), False)
    assert on_gpu.launcher.capacity(on_gpu.device) == 1
    assert on_gpu.run().unfit is None  # on the other one


def test_memory_that_a_job_leaves_in_use_costs_the_gpu_and_not_the_report(on_gpu: OnGpu) -> None:
    result = on_gpu.run(memory_used_bytes=900 * MIB)
    assert result.unfit is not None
    assert "GPU 0 after the job: 900 MiB" in str(result.unfit)
    assert on_gpu.launcher.capacity(on_gpu.device) == 1


def test_a_report_from_a_gpu_that_had_an_error_meanwhile_is_thrown_away(on_gpu: OnGpu) -> None:
    on_gpu.probe.set("0", errors={"Xid errors": 0})
    with pytest.raises(UnfitDevice, match="1 new Xid errors") as caught:
        on_gpu.run(errors={"Xid errors": 1})
    assert caught.value.spoils
    assert on_gpu.launcher.capacity(on_gpu.device) == 1


def test_a_gpu_that_is_left_out_can_be_looked_at_again(on_gpu: OnGpu) -> None:
    on_gpu.run()
    on_gpu.launcher.leave_out(frozenset({"0", "1"}))
    assert on_gpu.launcher.capacity(on_gpu.device) == 0
    on_gpu.launcher.look_again("0")
    on_gpu.probe.set("0", memory_used_bytes=900 * MIB)
    with pytest.raises(UnfitDevice, match="900 MiB") as caught:
        on_gpu.launcher.look_again("0")
    assert caught.value.gpus == ("0",)
    on_gpu.launcher.forget(frozenset({"0"}))
    on_gpu.launcher.look_again("0")


def test_a_gpu_that_another_process_uses_is_not_looked_at(on_gpu: OnGpu, tmp_path: Path) -> None:
    slot = Slots(tmp_path / "run", {}).try_gpu("0")
    assert slot is not None
    with pytest.raises(UnfitDevice, match="another KernelCup process") as caught:
        on_gpu.launcher.look_again("0")
    assert caught.value.gpus == ()
    slot.release()


ECHO = """
told = {**json.loads(report), "extra": {"sandbox": spec["sandbox"]}, "mode": spec["mode"]}
report = json.dumps(told)
finish()
"""


@pytest.mark.parametrize(
    ("mode", "required", "policy"),
    [
        (Mode.LEADERBOARD, True, "required"),
        (Mode.LEADERBOARD, False, "auto"),
        (Mode.TEST, True, "auto"),
        (Mode.BENCHMARK, True, "auto"),
    ],
)
def test_what_counts_runs_in_a_sandbox_only(launch, mode: Mode, required: bool, policy: str) -> None:
    result = launch(ECHO, spec=make_spec(mode=mode), sandbox_required=required)
    assert result.report.extra == {"sandbox": policy}


def test_a_job_that_wants_no_sandbox_gets_none(launch) -> None:
    spec = make_spec(mode=Mode.LEADERBOARD, sandbox=SandboxPolicy.NONE)
    assert launch(ECHO, spec=spec).report.extra == {"sandbox": "none"}


def test_what_the_operator_names_reaches_the_harness_with_its_list() -> None:
    environ = {"MY_ONE": "1", "SECRET": "2", "PATH": "/bin"}
    found = child_environ(environ, pass_on=["MY_*"])
    assert found == {"MY_ONE": "1", "PATH": "/bin", "KERNELCUP_HARNESS_PASS_ENV": "MY_*"}
    assert "KERNELCUP_HARNESS_PASS_ENV" not in child_environ(environ)
