"""Whole runs through ``python -m kernelcup_harness``: what is judged, told, kept and left behind."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest
from harness_runs import HONEST, REFERENCE, SOURCE, Finished, command, own_spec, printed, quick_spec, run

from kernelcup.launchers.bundle import write_bundle
from kernelcup_harness.isolation import processes, sandbox
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    Limits,
    Mode,
    Reason,
    Replay,
    RunReport,
    SandboxPolicy,
    SourceTree,
    StageName,
    Verdict,
    dumps,
    from_json,
    to_json,
)
from warm_harness import Run

SECONDS = 600.0
# The daemon can be told from all other processes by how long it sleeps.
MARK = f"31536000.{uuid.uuid4().int % 10**9:09d}"

CURIOUS = f"""
import json, os, subprocess, sys
subprocess.Popen(["/bin/sh", "-c", "setsid sleep {MARK} &"])
def files(folder):
    return sorted(name for name in os.listdir(folder) if not name.startswith("__"))
print("files=" + json.dumps(files(".")))
print("environment=" + json.dumps(dict(os.environ)))
print("arguments=" + json.dumps(sys.argv))
print("modules=" + json.dumps(sorted(name for name in sys.modules if name.startswith("kernelcup"))))
print("above=" + json.dumps([name for name in files("..") if "judge" in name]))
def custom_kernel(data):
    print("input=" + json.dumps(data.tolist()))
    return data * 2
"""


def sleepers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command_line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if MARK.encode() in command_line and b"setsid" not in command_line:
                found.append(int(entry.name))
    return found


@pytest.fixture(scope="module")
def curious(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path]:
    """A ranked run of a submission that looks around, and the folder for its temporary files."""
    folder = tmp_path_factory.mktemp("temporary")
    spec = quick_spec(CURIOUS, mode=Mode.LEADERBOARD, hidden_tests=[{"size": 3, "seed": 9}])
    secrets = {"DISCORD_TOKEN": "secret", "NCCL_DEBUG": "WARN", "TMPDIR": str(folder)}
    return run(spec, secrets), folder


@pytest.fixture(scope="module")
def finished(curious: tuple[Finished, Path]) -> Finished:
    return curious[0]


def test_events_come_in_order(finished: Finished) -> None:
    told = [(event["event"], event.get("stage"), event.get("case")) for event in finished.events]
    assert [each for each in told if each[0] != "sample"] == [
        ("stage", "import", None),
        ("stage_end", "import", None),
        ("stage", "test", None),
        ("case", "test", 0),
        ("stage_end", "test", None),
        ("stage", "ranked", None),
        ("case", "ranked", 0),
        ("stage_end", "ranked", None),
        # The process of hidden cases imports the submission when that of public cases has ended.
        ("stage", "import", None),
        ("stage_end", "import", None),
        ("stage", "test", None),
        ("case", "test", 1),
        ("stage_end", "test", None),
    ]
    scores = [event["score_ns"] for event in finished.events if event["event"] == "case"]
    assert scores[0] is scores[2] is None
    assert scores[1] > 0


def test_the_report_has_all_stages_and_samples(finished: Finished) -> None:
    report = finished.report
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert [stage.name for stage in report.stages] == [StageName.IMPORT, StageName.TEST, StageName.RANKED]
    assert [case.hidden for case in report.stages[1].cases] == [False, True]
    timing = report.stages[2].cases[0].timing
    assert 2 <= len(timing.samples_ns) == len(timing.own_ns) <= 3
    pairs = zip(timing.own_ns, timing.samples_ns, strict=True)
    assert all(0 < own <= sample for own, sample in pairs)
    assert not report.comparable
    assert report.environment["torch"]


def test_the_commitment_is_the_hash_of_the_revealed_seed(finished: Finished) -> None:
    seed = bytes.fromhex(finished.report.secret_seed)
    assert len(seed) == 32
    assert finished.report.seed_commitment == hashlib.sha256(seed).hexdigest()


def test_the_contestants_folder_has_no_private_file(finished: Finished) -> None:
    assert finished.printed("files") == [["submission.py"]]
    (modules,) = finished.printed("modules")
    assert not {"kernelcup", "kernelcup_harness.judge.main", "kernelcup_harness.protocol.seeds"} & set(
        modules
    )


def test_the_contestants_surroundings_have_neither_seed_nor_secrets(finished: Finished) -> None:
    (environment,) = finished.printed("environment")
    seed = finished.report.secret_seed
    assert "DISCORD_TOKEN" not in environment
    assert environment["NCCL_DEBUG"] == "WARN"
    text = json.dumps([environment, finished.printed("arguments")])
    assert seed not in text
    assert "secret" not in text


def test_the_judges_folder_is_out_of_reach_where_there_is_a_sandbox(finished: Finished) -> None:
    if finished.report.environment["sandbox"]["kind"] == "none":
        pytest.skip("no sandbox here")
    assert finished.printed("above") == [[]]


def test_a_daemon_of_the_contestant_is_gone_after_the_run(finished: Finished) -> None:
    assert finished.printed("files")
    assert sleepers() == []


def test_no_temporary_folder_is_left(curious: tuple[Finished, Path]) -> None:
    assert list(curious[1].iterdir()) == []


@pytest.mark.jobs
def test_a_given_seed_repeats_the_ranked_inputs(finished: Finished, warm: Run) -> None:
    spec = quick_spec(CURIOUS, mode=Mode.LEADERBOARD, secret_seed=finished.report.secret_seed)
    first, again = ranked_inputs(finished.report), ranked_inputs(warm(spec))
    shared = min(len(first), len(again))  # the number of warm-ups is the judge's secret
    assert shared >= 3
    assert first[:shared] == again[:shared]


SCALED = """
import torch
def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator), torch.full((size,), 0.5)
def ref_kernel(data):
    return data[0] * data[1]
def check_implementation(data, output):
    return torch.equal(output, data[0] * data[1])
"""


def test_a_replay_of_the_twin_that_failed_changes_the_same_element(warm: Run) -> None:
    """The second twin of an input fails here, so its name has to say which."""
    spec = quick_spec("def custom_kernel(data):\n    return data[0] * 0.5\n", mode=Mode.LEADERBOARD)
    spec = dataclasses.replace(spec, sources={"reference.py": SCALED})
    report = warm(spec)
    (case,) = report.stages[-1].cases
    assert (case.reason, case.failed_on) == (
        Reason.NEAR_TWIN,
        dataclasses.replace(case.failed_on, twin=True, part=1),
    )
    again = Replay(stage=StageName.RANKED, case=0, sample=case.failed_on)
    replayed = warm(dataclasses.replace(spec, replay=again, secret_seed=report.secret_seed))
    (once,) = replayed.stages[-1].cases
    assert (once.reason, once.message, once.checks) == (Reason.NEAR_TWIN, case.message, 1)
    assert "one element of `data[1]`" in case.message


def ranked_inputs(report: RunReport) -> list[Any]:
    """Return the inputs of the benchmark, which is of a size of its own."""
    return [each for each in printed(report, "input") if len(each) == 8]


# Forms of tasks: what is judged is the same without a sandbox


TWO_FILES = SourceTree(
    entry="submission.py",
    files={
        "submission.py": "import helper\nfrom kernels import add\ndef custom_kernel(data):\n"
        "    return add.one(helper.doubled(data))\n",
        "helper.py": "def doubled(data):\n    return data * 2\n",
        "kernels/add.py": "def one(data):\n    return data + (data is None)\n",
    },
)


def test_a_submission_of_several_files_is_judged(warm: Run) -> None:
    report = warm(quick_spec(TWO_FILES, mode=Mode.LEADERBOARD))
    assert report.verdict is Verdict.ACCEPTED, report.message


# Limits and failures


@pytest.mark.jobs
def test_what_was_found_before_the_time_limit_is_kept(warm: Run) -> None:
    submission = "import signal\ndef custom_kernel(data):\n"
    submission += "    if len(data) == 2:\n        signal.pause()\n    return data * 2\n"
    spec = quick_spec(
        submission, tests=[{"size": 1, "seed": 1}, {"size": 2, "seed": 1}], limits=Limits(test_s=10.0)
    )
    report = warm(spec)
    stage = report.stages[1]
    assert (report.verdict, stage.planned_cases) == (Verdict.TIME_LIMIT_EXCEEDED, 2), report.message
    assert [case.verdict for case in stage.cases] == [Verdict.ACCEPTED]
    assert report.stage is StageName.TEST


@pytest.mark.jobs
def test_a_submission_that_exits_between_two_calls_has_ended(warm: Run) -> None:
    """It wrote nothing to the channel, so it is not accused of that."""
    submission = "import os, threading\ncalls = []\ndef custom_kernel(data):\n    calls.append(1)\n"
    submission += (
        "    if len(calls) == 1:\n        threading.Timer(0.1, os._exit, [3]).start()\n    return data * 2\n"
    )
    slow = REFERENCE.replace(
        "    generator =", "    import time; time.sleep(3 * (seed == 2))\n    generator ="
    )
    tests = [{"size": 1, "seed": 1}, {"size": 2, "seed": 2}]
    report = warm(quick_spec(submission, sources={"reference.py": slow}, tests=tests))
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert "exit code 3" in report.message


@pytest.mark.jobs
def test_an_exception_that_cannot_be_shown_is_named(warm: Run) -> None:
    submission = "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit(5)\n"
    submission += "def custom_kernel(data):\n    raise Odd\n"
    report = warm(quick_spec(submission))
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert "Odd" in report.message


FORGED = """
from kernelcup_harness.contestant import main as contestant
contestant.Contestant._write = lambda self, value, copy=None: {{"tree": {tree}, "table": []}}
def custom_kernel(data):
    return data
"""


@pytest.mark.parametrize(
    ("tree", "reference"),
    [
        ("{'k': 'device', 'v': 'bogus'}", REFERENCE),
        (
            "{'k': 'int', 'v': 10**400}",
            REFERENCE.replace("return data * 2", "return 5").replace(
                "torch.equal", "not (lambda a, b: a < b)"
            ),
        ),
    ],
    ids=["a device that is none", "a number beyond all floats"],
)
def test_no_answer_makes_the_judge_fail(warm: Run, tree: str, reference: str) -> None:
    report = warm(quick_spec(FORGED.format(tree=tree), sources={"reference.py": reference}))
    assert report.verdict in (Verdict.REJECTED, Verdict.WRONG_ANSWER), report.message


def test_no_answer_makes_the_report_large(warm: Run) -> None:
    submission = "def custom_kernel(data):\n    return {'x' * 8_000_000: 1}\n"
    reference = REFERENCE.replace("return data * 2", "return {'double': data * 2}")
    tests = [{"size": 1, "seed": 1}, {"size": 1, "seed": 2}]
    report = warm(quick_spec(submission, sources={"reference.py": reference}, tests=tests))
    assert report.verdict is Verdict.WRONG_ANSWER
    assert len(dumps(report)) < 1 << 20


UNSURE = """
import torch
def generate_input(size, seed):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed))
def ref_kernel(data):
    return data * 2
def check_implementation(data, output):
    return int(output.sum()) == int(ref_kernel(data).sum())
"""


def test_an_output_that_the_checker_cannot_stand_is_not_the_tasks_fault(warm: Run) -> None:
    """The checker works on the reference's own output, so the submission's made it fail."""
    submission = "def custom_kernel(data):\n    return data * float('nan')\n"
    report = warm(quick_spec(submission, sources={"reference.py": UNSURE}))
    assert report.verdict is Verdict.WRONG_ANSWER, report.message


@pytest.mark.jobs
@pytest.mark.parametrize(
    "changes",
    [
        {"secret_seed": "not hexadecimal"},
        {"sources": {"../outside.py": "", "reference.py": REFERENCE}},
        {"sources": {"a\x00b": "", "reference.py": REFERENCE}},
        {"sources": {"a": "", "a/b": "", "reference.py": REFERENCE}},
        {"submission": {"entry": "../submission.py", "files": {"../submission.py": ""}}},
        {"submission": {"entry": "a.py", "files": {"a.py": "half of a \ud800 pair"}}},
        {"rules": {"checks": 0}},
        {"rules": {"max_samples": 0}, "mode": "benchmark"},
        {"harness": "own"},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_a_job_that_cannot_be_run_is_refused_or_reported(changes: dict[str, Any]) -> None:
    """A traceback without a report would look like a broken machine, and be tried again and again."""
    text = json.dumps(to_json(quick_spec("def custom_kernel(data):\n    return data\n")) | changes)
    done = subprocess.run(command(), input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 2:
        assert done.returncode == 0, done.stderr[-2000:]
        report = from_json(RunReport, json.loads(done.stdout.splitlines()[-1])["report"])
        assert report.verdict is not Verdict.ACCEPTED


@pytest.mark.jobs
@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"job_id": 5}'])
def test_a_job_that_cannot_be_read_is_refused_with_exit_code_2(text: str) -> None:
    done = subprocess.run(command(), input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "JobSpec" in done.stderr


# Where and how it runs


@pytest.mark.jobs
def test_the_runner_does_not_import_torch() -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
    code += "import kernelcup_harness.__main__, kernelcup_harness.run.runner, kernelcup_harness.run.task_harness\n"
    code += "print([n for n in sys.modules if n.split('.')[0] in ('torch', 'numpy', 'kernelcup', 'triton')])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.jobs
def test_a_strict_umask_is_nobodys_fault() -> None:
    """Services are often run so; the sandbox's user must be able to read the job's files all the same."""
    spec = quick_spec(HONEST)
    done = subprocess.run(
        command(), input=dumps(spec), capture_output=True, text=True, timeout=600, umask=0o077, check=False
    )
    report = from_json(RunReport, json.loads(done.stdout.splitlines()[-1])["report"])
    assert report.verdict is Verdict.ACCEPTED, report.message


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("bundle") / "harness.zip"
    write_bundle(target)
    return target


def from_bundle(bundle: Path, spec: JobSpec) -> RunReport:
    """Run a job with the zip, and nothing else of ours, on the path."""
    code = "import sys; sys.path[:] = [sys.argv.pop(1), *(p for p in sys.path if not p.endswith('/src'))]; "
    code += "import runpy; runpy.run_module('kernelcup_harness', run_name='__main__')"
    return run(spec, argv=[sys.executable, "-P", "-c", code, str(bundle), "--events", "-"]).report


@pytest.mark.jobs
def test_the_harness_runs_from_its_bundle(bundle: Path) -> None:
    submission = "import kernelcup_harness\nprint(kernelcup_harness.__file__)\n"
    submission += HONEST
    assert "kernelcup_harness/__main__.py" in zipfile.ZipFile(bundle).namelist()
    report = from_bundle(bundle, quick_spec(submission))
    assert report.verdict is Verdict.ACCEPTED, report.message + report.stderr.text
    assert str(bundle) in report.stdout.text


@pytest.mark.jobs
def test_an_own_harness_is_emulated_from_the_bundle(bundle: Path) -> None:
    main = "import os, torch\nassert torch.ones(1, device='cuda').is_cuda\n"
    main += "os.write(int(os.environ['POPCORN_FD']), b'test.0.status: pass\\ncheck: pass\\n')"
    report = from_bundle(bundle, own_spec(main))
    assert report.verdict is Verdict.ACCEPTED, report.message


HELD_OPEN = """
import os, signal
def custom_kernel(data):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    os.wait()
    os._exit(3)
"""


@pytest.mark.jobs
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_daemon_that_holds_the_channel_of_an_ended_contestant_ends_with_it(kind: str) -> None:
    if kind == "bubblewrap" and not sandbox.has_own_names():
        pytest.skip("no bubblewrap")
    report = run(quick_spec(HELD_OPEN), {sandbox.VARIABLE: kind}).report
    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, Reason.EXITED)
    assert "exit code 3" in report.message


# Runs that are ended from outside


BUSY = f"""
import subprocess, signal
def custom_kernel(data):
    if len(data) == 2:
        signal.pause()
    subprocess.Popen(["/bin/sh", "-c", "setsid sleep {MARK} &"]).wait()
    return data * 2
"""


MOST_LOOKS = 1000


@dataclasses.dataclass
class Ended:
    """What was left of a run that was ended by a signal."""

    family: set[str]
    survivors: set[str]
    folders: list[Path]


def ended_by(number: int, folder: Path, policy: SandboxPolicy) -> Ended:
    """Send a signal to the harness while a submission hangs, and see what is left of it."""
    spec = quick_spec(BUSY, tests=[{"size": 1, "seed": 1}, {"size": 2, "seed": 1}], sandbox=policy)
    with subprocess.Popen(
        command("--events"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    ) as runner:
        assert runner.stdout is not None
        runner.stdin.write(dumps(spec).encode())
        runner.stdin.close()
        for line in runner.stdout:
            if json.loads(line)["event"] == "case":
                break
        names = roles_below(runner.pid)
        watched = {pid: os.pidfd_open(pid) for pid in names}
        runner.send_signal(number)
        assert gone({runner.pid: os.pidfd_open(runner.pid)}, SECONDS) == set()
    daemons = {pid: fd for pid, fd in watched.items() if names[pid] == "daemon"}
    left = gone({pid: fd for pid, fd in watched.items() if pid not in daemons}, 30.0)
    left |= gone(daemons, 30.0 if policy is SandboxPolicy.AUTO else 0.0)
    family, survivors = {names[pid] for pid in watched}, {names[pid] for pid in left}
    return Ended(family, survivors, list(folder.iterdir()))


def roles_below(pid: int) -> dict[int, str]:
    """Return what the descendants of a process are, once none of them is about to become another program."""
    for _ in range(MOST_LOOKS):
        names = {each: role_of(each) for each in processes.descendants(pid)}
        if all(names.values()):
            break
    return names


def role_of(pid: int) -> str:
    """Say what a process is; nothing where it is between two programs."""
    if Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z":
        return "ended"
    text = Path("/proc", str(pid), "cmdline").read_bytes().decode(errors="replace")
    roles = {"harness.judge": "judge", "harness.contestant": "contestant", MARK: "daemon"}
    return next((role for mark, role in roles.items() if mark in text), text[:40])


def gone(watched: dict[int, int], seconds: float) -> set[int]:
    """Wait for the processes to end; kill those that do not and return them."""
    left = dict(watched)
    waiting = select.poll()
    for fd in left.values():
        waiting.register(fd, select.POLLIN)
    while left and (ready := waiting.poll(seconds * 1000)):
        for fd, _event in ready:
            waiting.unregister(fd)
            left = {pid: each for pid, each in left.items() if each != fd}
    for fd in left.values():
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    for fd in watched.values():
        os.close(fd)
    return set(left)


@pytest.mark.jobs
@pytest.mark.skipif(not sandbox.is_there(), reason="nothing ends a daemon without a sandbox")
def test_a_killed_harness_leaves_no_process_behind(tmp_path: Path) -> None:
    ended = ended_by(signal.SIGKILL, tmp_path, SandboxPolicy.AUTO)
    assert {"judge", "contestant", "daemon"} <= ended.family
    assert ended.survivors == set()


@pytest.mark.jobs
def test_a_killed_harness_without_a_sandbox_leaves_neither_judge_nor_contestant(tmp_path: Path) -> None:
    ended = ended_by(signal.SIGKILL, tmp_path, SandboxPolicy.NONE)
    assert not ended.survivors & {"judge", "contestant"}


@pytest.mark.jobs
def test_a_terminated_harness_cleans_up(tmp_path: Path) -> None:
    """A cancelled job must not leave its folder on the machine."""
    ended = ended_by(signal.SIGTERM, tmp_path, SandboxPolicy.AUTO)
    assert ended.survivors == set()
    assert ended.folders == []


HANGS = """
import signal
def custom_kernel(data):
    if len(data) == 2:
        signal.pause()
    return data * 2
"""


def killed(role: str, *, outer: bool) -> RunReport:
    """Return the report of a run of which a process is killed while the submission hangs.

    Args:
        role: Which process: ``judge`` or ``contestant``.
        outer: Kill the outer process of its sandbox, not the process itself.
    """
    spec = quick_spec(HANGS, tests=[{"size": 1, "seed": 1}, {"size": 2, "seed": 1}])
    with subprocess.Popen(command("--events"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runner:
        runner.stdin.write(dumps(spec).encode())
        runner.stdin.close()
        for line in runner.stdout:
            if json.loads(line).get("event") == "case":
                break
        family = [pid for pid, name in roles_below(runner.pid).items() if name == role]
        # The sandbox has two processes, and the program is the third.
        os.kill(family[0] if outer else family[2], signal.SIGKILL)
        return from_json(RunReport, json.loads(runner.stdout.read().splitlines()[-1])["report"])


@pytest.mark.jobs
@pytest.mark.skipif(not sandbox.has_own_names(), reason="no bubblewrap")
@pytest.mark.parametrize(("role", "outer"), [("judge", False), ("judge", True), ("contestant", True)])
def test_a_run_of_which_our_side_killed_a_process_is_not_the_submissions_fault(
    role: str, outer: bool
) -> None:
    report = killed(role, outer=outer)
    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.KILLED), report.message


@pytest.mark.jobs
@pytest.mark.skipif(not sandbox.has_own_names(), reason="no bubblewrap")
def test_a_submissions_process_that_was_killed_may_have_done_it_itself() -> None:
    report = killed("contestant", outer=False)
    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, Reason.KILLED), report.message


@pytest.mark.jobs
def test_an_own_harness_that_was_killed_may_have_done_it_itself() -> None:
    report = run(own_spec("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")).report
    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, Reason.KILLED), report.message


@pytest.mark.jobs
def test_an_undeletable_folder_does_not_cost_the_report(tmp_path: Path) -> None:
    """Without a sandbox a submission may nest folders deeper than Python recurses."""
    submission = "import os\nfor _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\n"
    submission += "def custom_kernel(data):\n    return data\n"
    spec = quick_spec(submission, sandbox=SandboxPolicy.NONE)
    try:
        assert run(spec, {"TMPDIR": str(tmp_path)}).report.verdict is Verdict.WRONG_ANSWER
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["rm", "-rf", *map(str, tmp_path.iterdir())], check=False)


def test_on_a_processor_no_rival_is_started(warm: Run) -> None:
    spec = quick_spec(
        HONEST,
        mode=Mode.LEADERBOARD,
        backend=Backend.CPU,
        rival="print('a rival')\n",
        tests=[],
    )
    report = warm(spec)
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert report.duel.verdict == "not_held"
    assert report.duel.rival_message == "one of the two was timed by the wall clock"
    assert "a rival" not in report.stdout.text
