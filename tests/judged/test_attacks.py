"""Known cheats: none is accepted, and the honest twin of each is.

The attacks lie in ``attacks/``, one folder each; ``attacks/corpus.py`` says what an ``attack.yml`` may
hold. Those on the clock are judged by ``test_clock_attacks.py``. Those that need a GPU are judged by
``benchmarks/run_attack_jobs.py`` on a machine that has one.
"""

from __future__ import annotations

import ast
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "attacks"))

import corpus
from corpus import Attack
from judging import lacks, loaded, run_harness, what_was_said

from kernelcup.app.submissions.redaction import redact
from kernelcup.tasks.problem_set import check_path
from kernelcup_harness.isolation import sandbox
from kernelcup_harness.protocol import Backend, JobSpec, Reason, RunReport, Verdict, canonical_hash, dumps
from warm_harness import Run

ALL = corpus.attacks()
ON_THE_PROCESSOR = [attack for attack in ALL if attack.needs == "cpu"]
ON_THE_MACHINE = [attack for attack in ON_THE_PROCESSOR if attack.alone]
IN_TWO_JOBS = [attack for attack in ON_THE_PROCESSOR if attack.first is not None]
IN_ONE_JOB = [attack for attack in ON_THE_PROCESSOR if attack not in ON_THE_MACHINE + IN_TWO_JOBS]
# Where the attacks on the network look for somebody to talk to; ``attacks/v15_snooping`` has the same.
PORT = 47615
ABSTRACT = "\0kernelcup-attack-target"
NEXT_JOB_STARTS_WITHIN_S = 60.0
QUICK = "v01_input_overwrite"
"""The attack that `make test` judges."""


FIRST = {attack.folder: attack.file for attack in reversed(IN_ONE_JOB)}
judged: dict[str, RunReport] = {}


def judge(attack: Attack, file: str, run: Run = run_harness) -> RunReport:
    """Judge one file of an attack's folder, once a session for the same text in the same job."""
    spec = job_of(attack, file)
    key = canonical_hash(spec)
    if key not in judged:
        judged[key] = run(spec)
    return judged[key]


def run_of(attack: Attack, warm: Run) -> Run:
    """Return what judges an attack: fresh processes in a sandbox where one of them may be the defence.

    Attacks on checks meet the judge's own code, and further variants meet what the first of their folder meets.
    Without a sandbox the others would act: on the modules of this Python, for example.
    """
    first = attack.file == FIRST[attack.folder]
    return run_harness if attack.sandbox or (first and attack.stage != "check") else warm


def job_of(attack: Attack, file: str) -> JobSpec:
    """Return the job of one file of an attack's folder."""
    return corpus.job(attack, loaded(attack.task_folder), file, Backend.EMULATED, "attack")


def skip_where_it_cannot_be_tried(attack: Attack, file: str) -> None:
    """Skip an attack that this machine is not made for."""
    if missing := lacks(attack.folder / file):
        pytest.skip(f"needs {missing}")
    if attack.sandbox and not sandbox.is_there():
        pytest.skip("the sandbox is the defence, and this machine has none")
    if attack.group and "cgroup" not in sandbox.describe().get("limits", ""):
        pytest.skip("a control group is the defence, and we may make none here")


def about(report: RunReport) -> str:
    """Say what a person wants to know of a run that did not end as it should."""
    lines = [
        f"{report.verdict} {report.reason}",
        what_was_said(report),
        report.stderr.text,
        report.stdout.text,
    ]
    return "\n".join([*lines, f"seed {report.secret_seed}"])


def cases(found: list[Attack]) -> list[object]:
    """Return attacks as parameters with readable names; all but one wait for `make test-jobs`."""
    marks = {True: [], False: [pytest.mark.jobs]}
    return [pytest.param(attack, id=attack.name, marks=marks[attack.name == QUICK]) for attack in found]


@pytest.fixture
def somebody_to_talk_to() -> Iterator[None]:
    """Listen on the host's loopback and under an abstract name, so that a connection would be made."""
    with contextlib.ExitStack() as stack:
        for family, address in (
            (socket.AF_INET, ("127.0.0.1", PORT)),
            (socket.AF_INET6, ("::1", PORT)),
            (socket.AF_UNIX, ABSTRACT),
        ):
            # Another worker may be listening already, and a machine may have no IPv6.
            with contextlib.suppress(OSError):
                listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
                listener.listen()
        yield


def refused_as_expected(attack: Attack, report: RunReport) -> None:
    """Check the verdict and its reason.

    A wrong answer may by chance be found on a near-twin first, or lie far outside of the range.
    """
    assert report.verdict is not Verdict.ACCEPTED, f"{attack.name} got through\n{about(report)}"
    assert report.verdict in attack.verdicts, about(report)
    by_chance = {Reason.NEAR_TWIN: Reason.DIFFERS, Reason.RANGE: Reason.DIFFERS}
    instead = by_chance.get(report.reason, report.reason)
    assert {report.reason, instead} & set(attack.reasons), about(report)


def accepted(report: RunReport) -> None:
    assert report.verdict is Verdict.ACCEPTED, about(report)
    assert report.reason is Reason.NONE


@pytest.mark.usefixtures("somebody_to_talk_to")
@pytest.mark.parametrize("attack", cases(IN_ONE_JOB))
def test_an_attack_is_not_accepted(attack: Attack, warm: Run) -> None:
    skip_where_it_cannot_be_tried(attack, attack.file)
    refused_as_expected(attack, judge(attack, attack.file, run_of(attack, warm)))


@pytest.mark.parametrize(
    "attack", cases([attack for attack in IN_ONE_JOB if attack.told and not attack.untold])
)
def test_an_attack_that_says_so_has_acted(attack: Attack, warm: Run) -> None:
    skip_where_it_cannot_be_tried(attack, attack.file)
    report = judge(attack, attack.file, run_of(attack, warm))
    assert attack.told in dumps(report), about(report)


@pytest.mark.parametrize("attack", cases([attack for attack in IN_ONE_JOB if attack.untold]))
def test_its_author_does_not_see_what_an_attack_finds_out(attack: Attack, warm: Run) -> None:
    skip_where_it_cannot_be_tried(attack, attack.file)
    report = judge(attack, attack.file, run_of(attack, warm))
    assert attack.told in dumps(report), about(report)
    shown = dumps(redact(report, sees_all=False))
    assert not [text for text in attack.untold if text in shown], shown


@pytest.mark.parametrize("attack", cases(IN_ONE_JOB + IN_TWO_JOBS))
def test_its_honest_twin_is_accepted(attack: Attack, warm: Run) -> None:
    skip_where_it_cannot_be_tried(attack, attack.honest)
    accepted(judge(attack, attack.honest, run_harness if attack.sandbox else warm))


@pytest.mark.parametrize("attack", cases(IN_TWO_JOBS))
def test_a_job_finds_nothing_of_an_earlier_one(attack: Attack) -> None:
    skip_where_it_cannot_be_tried(attack, attack.file)
    assert attack.first is not None
    # What was left is found by the earlier job itself, or there would be nothing to look for.
    accepted(judge(attack, attack.first))
    refused_as_expected(attack, judge(attack, attack.file))


@pytest.mark.parametrize("attack", cases(ON_THE_MACHINE))
def test_an_attack_on_the_machine_is_not_accepted_and_the_next_job_starts_at_once(attack: Attack) -> None:
    skip_where_it_cannot_be_tried(attack, attack.file)
    refused_as_expected(attack, run_harness(job_of(attack, attack.file)))
    # Not a remembered report: what counts is what the attack has left behind just now.
    began = time.monotonic()
    report = run_harness(job_of(attack, attack.honest))
    started_after_s = time.monotonic() - began - report.duration_s
    accepted(report)
    assert started_after_s < NEXT_JOB_STARTS_WITHIN_S


def test_every_attack_says_what_it_tries_and_what_must_become_of_it() -> None:
    for attack in ALL:
        for file in filter(None, (attack.file, attack.honest, attack.first)):
            text = attack.text(file)
            assert ast.get_docstring(ast.parse(text)) if file.endswith(".py") else text.startswith("// "), (
                file
            )
        assert attack.verdicts, attack.name
        assert attack.reasons, attack.name
        assert Verdict.ACCEPTED not in attack.verdicts, attack.name
        assert Reason.NONE not in attack.reasons, attack.name
        # V1 lies in v01_..., T28 in t28_...
        assert attack.folder.name.startswith(f"{attack.id[0].lower()}{int(attack.id[1:]):02}_")


def test_every_file_of_an_attack_is_judged() -> None:
    listed = {
        attack.folder / file
        for attack in corpus.everything()
        for file in (attack.file, attack.honest, attack.first)
        if file
    }
    present = {path for path in corpus.HERE.glob("[tv][0-9]*/*") if path.suffix in (".py", ".cpp")}
    assert present == listed


def test_the_tasks_of_attacks_have_no_faults() -> None:
    folders = {attack.task_folder for attack in corpus.everything()}
    assert {folder.name: check_path(folder) for folder in folders} == {each.name: () for each in folders}


def test_every_task_has_an_attack() -> None:
    used = {attack.task_folder for attack in corpus.everything()}
    assert {folder for folder in (corpus.HERE / "tasks").iterdir() if (folder / "task.yml").exists()} <= used


def test_the_specified_attacks_are_all_here() -> None:
    """Section 5.1 of the threat notes, and at least ten of the taxonomy that are about the clock."""
    visible = {f"V{number}" for number in range(1, 16)}
    assert visible <= {attack.id for attack in corpus.everything()}
    assert len({attack.id for attack in ALL} - visible) >= 24
    on_the_clock = {number for attack in corpus.clock_attacks() for number in attack.taxonomy}
    assert len(on_the_clock) >= 10


def test_the_page_of_attacks_is_up_to_date() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts/attack-docs"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
