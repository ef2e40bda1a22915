"""Which jobs are given the kept binary of an earlier run, and which judge the code."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import NOW, make_board, make_report, make_task
from fakes import FakeClock
from final_duels import close
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.machines import agents, machines
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue import assignment
from kernelcup.app.results import comparisons, finals, profile_files, rejudge
from kernelcup.app.submissions.redaction import NOT_REPLAYABLE, redact, without_duel
from kernelcup.domain import OPERATOR, Submission
from kernelcup.engine.blobs import Folder
from kernelcup.engine.database import Database
from kernelcup.engine.file_store import name_of
from kernelcup.errors import StorageUnavailable
from kernelcup.launchers.base import MachineReading
from kernelcup.reporting.phrases import binaries_text
from kernelcup_harness.protocol import (
    BINARY,
    MEMORY,
    Backend,
    BinaryUse,
    DuelResult,
    JobSpec,
    KeptBinary,
    KeptFile,
    RunReport,
    to_json,
)

STATE = {"name": "NVIDIA H100", "driver_version": "580"}
TIED = DuelResult(ratio=1.0, low=0.99, high=1.01, verdict="tied", blocks=20)


@pytest.fixture
def judging(db: Database, clock: FakeClock) -> Judging:
    make_board(db, duel=True)
    return Judging(db, clock)


def file(name: str, body: bytes) -> KeptFile:
    packed = base64.b64encode(gzip.compress(body, mtime=0)).decode()
    return KeptFile(name=name, nbytes=len(body), sha256=hashlib.sha256(body).hexdigest(), gz64=packed)


def report(time_ns: float, author: str, **overrides: Any) -> RunReport:
    """A ranked run's report with what is kept of it."""
    files = [file(name, f"{name} of {author}".encode()) for name in (BINARY, MEMORY)]
    values: dict[str, Any] = {"files": files, "environment": {"gpu": STATE}}
    return make_report([time_ns], **(values | overrides))


def enter(judging: Judging, author: str, time_ns: float = 1000, **overrides: Any) -> tuple[Submission, int]:
    """Have a submission ranked whose binary is kept; return the number of its run too."""
    machine = overrides.pop("machine", "box")
    submission = judging.submit(author, content=f"# {author}\n".encode())
    kept = profile_files.keep(judging.db, report(time_ns, author, **overrides))
    return submission, judging.finish(judging.claim(), report=kept, machine=machine).id


def next_spec(judging: Judging, backend: Backend = Backend.CUDA) -> JobSpec:
    """What the machine of the next job is given."""
    lease = judging.claim()
    assert lease is not None
    return assignment.prepare(judging.db, lease, backend, now=judging.clock()).spec


def content(binary: KeptBinary | None) -> Sequence[bytes]:
    assert binary is not None
    assert binary.why == ""
    return [gzip.decompress(base64.b64decode(each.gz64)) for each in binary.files]


def test_a_challengers_code_meets_the_leaders_binary(judging: Judging) -> None:
    _, run = enter(judging, "ada")
    judging.submit("bob")
    spec = next_spec(judging)
    assert spec.binary is None
    assert spec.rival_binary is not None
    assert (spec.rival_binary.run, spec.rival_binary.device) == (run, "NVIDIA H100, driver 580")
    assert content(spec.rival_binary) == [b"binary.kcgraph of ada", b"binary.memory of ada"]
    assert spec.rival is not None  # its code, where the binary cannot be replayed


def test_a_rejudge_replays_the_run_that_it_replaces_and_a_first_judgement_the_code(judging: Judging) -> None:
    submission, run = enter(judging, "ada")
    judging.submit("ada", content=b"# ada\n")  # the same code again
    assert next_spec(judging).binary is None
    rejudge.rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    spec = next_spec(judging)
    assert spec.binary is not None
    assert (spec.binary.run, content(spec.binary)[0]) == (run, b"binary.kcgraph of ada")


def test_a_comparison_and_a_duel_of_a_final_replay_both_sides(judging: Judging) -> None:
    first, of_ada = enter(judging, "ada")
    second, of_bob = enter(judging, "bob", 990, duel=TIED)
    comparisons.start(judging.db, actor_of(judging.db, "ada"), first.id, second.id, now=judging.clock())
    spec = next_spec(judging)
    assert [each and each.run for each in (spec.binary, spec.rival_binary)] == [of_ada, of_bob]
    close(judging.db, "double", judging.clock())
    finals.start(judging.db, OPERATOR, "double", now=judging.clock())
    spec = next_spec(judging)
    assert {each and each.run for each in (spec.binary, spec.rival_binary)} == {of_ada, of_bob}


def test_another_version_of_the_task_judges_the_code_and_reports_why(judging: Judging) -> None:
    submission, run = enter(judging, "ada")
    other = make_task(benchmarks=[{"size": 64, "seed": 7}])
    update_board(judging.db, OPERATOR, "double", task=other, now=judging.clock())
    rejudge.rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    spec = next_spec(judging)
    assert spec.binary == KeptBinary(run=run, why="that run was of another version of the task")


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (
            {"not_kept": "it takes more than 6 MiB, compressed", "files": []},
            "it takes more than 6 MiB",
        ),
        ({"files": []}, "it was not kept"),
    ],
)
def test_a_run_without_a_kept_binary_says_why(judging: Judging, overrides: dict[str, Any], why: str) -> None:
    enter(judging, "ada", **overrides)
    judging.submit("bob")
    binary = next_spec(judging).rival_binary
    assert binary is not None
    assert why in binary.why


def test_deleted_files_have_the_code_judged(judging: Judging) -> None:
    _, run = enter(judging, "ada")
    judging.db.files.delete(file(MEMORY, b"binary.memory of ada").sha256)
    judging.submit("bob")
    assert next_spec(judging).rival_binary == KeptBinary(
        run=run, why="its files were deleted, or cannot be reached"
    )


def test_a_store_that_cannot_be_reached_has_the_code_judged_and_no_job_waits(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = enter(judging, "ada")
    judging.submit("bob")
    lease = judging.claim()
    assert lease is not None

    def spec() -> JobSpec:
        return assignment.prepare(judging.db, lease, Backend.CUDA, now=judging.clock()).spec

    stored, asked = agents.without_content(to_json(spec())), list[str]()

    def cut_off(_self: Folder, name: str, **_more: Any) -> None:
        asked.append(name)
        raise StorageUnavailable("the store of files cannot be reached")

    monkeypatch.setattr(Folder, "get", cut_off)
    why = "its files were deleted, or cannot be reached"
    assert spec().rival_binary == KeptBinary(run=run, why=why)
    assert len(asked) == 1  # a request may take long
    assert agents.filled(judging.db, stored) == stored  # of an agent that asks meanwhile


def test_a_binary_of_a_lent_machine_is_not_replayed(judging: Judging) -> None:
    found = [MachineReading(name="lent", slots={"H100": 1}, facts={})]
    machines.note_seen(judging.db, found, launcher="fake", is_own=False, now=judging.clock())
    enter(judging, "ada", machine="lent")
    judging.submit("bob")
    spec = next_spec(judging)
    assert spec.rival is not None
    assert spec.rival_binary is None


def test_files_of_a_standing_result_outlive_their_time_and_others_do_not(judging: Judging) -> None:
    enter(judging, "ada", 1000)
    enter(judging, "ada", 900)  # her best from now on: equal files
    enter(judging, "bob", 2000, not_kept="x", files=[file("sass.txt", b"bob's first")])
    enter(judging, "bob", 1500, not_kept="x", files=[file("sass.txt", b"bob's best")])
    stored = NOW.timestamp()
    for path in judging.db.files._blobs.path.glob("??/*"):  # type: ignore[attr-defined]
        os.utime(path, (stored, stored))
    assert profile_files.prune(judging.db, NOW + timedelta(days=9000)) == 1
    left = {path.name for path in judging.db.files._blobs.path.glob("??/*")}  # type: ignore[attr-defined]
    bodies = (b"binary.kcgraph of ada", b"binary.memory of ada", b"bob's best")
    assert left == {name_of(file(BINARY, body).sha256).partition("/")[2] for body in bodies}


def test_the_order_of_an_agent_has_hashes_and_the_agent_gets_the_content(judging: Judging) -> None:
    enter(judging, "ada")
    judging.submit("bob")
    spec = to_json(next_spec(judging))
    stored = agents.without_content(spec)
    assert [each["gz64"] for each in stored["rival_binary"]["files"]] == ["", ""]
    assert agents.filled(judging.db, stored) == spec


def test_why_a_rivals_binary_was_not_replayed_stays_with_its_author() -> None:
    uses = [
        BinaryUse(side="submission", run=1, why="its own reason"),
        BinaryUse(side="rival", run=2, why="its kernel secret_name"),
        BinaryUse(side="rival", run=3),
    ]
    told = make_report(duel=TIED, binaries=uses)
    shown = redact(told, sees_all=False).binaries
    assert shown == [uses[0], replace(uses[1], why=NOT_REPLAYABLE), uses[2]]
    assert redact(told, sees_all=False, is_own_rival=True).binaries == uses
    assert without_duel(told).binaries == uses[:1]
    assert binaries_text(shown[:2], "this submission", "its rival") == (
        "Of this submission, the code was judged and not the binary of run 1: its own reason. "
        "Of its rival, the code was judged and not the binary of run 2: it cannot be replayed in this job."
    )
