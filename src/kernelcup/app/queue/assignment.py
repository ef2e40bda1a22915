"""What a launcher is asked to do for a job, from the database.

A job that compares ranked runs, or judges one again, replays their kept binaries in the place of code.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from datetime import datetime

from kernelcup.app.boards.boards import find_board
from kernelcup.app.boards.queries import task_versions
from kernelcup.app.machines.placement import Fleet
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.queries import comparisons
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.app.results import duels
from kernelcup.app.results.duels import Rival
from kernelcup.app.results.queries import runs
from kernelcup.app.submissions.queries import screenings, submissions
from kernelcup.domain import Job, Leaderboard, Submission, Task
from kernelcup.engine import Database, Session
from kernelcup.errors import StaleLease
from kernelcup.tasks.job_spec import build_job_spec, placed
from kernelcup_harness.protocol import (
    BINARY,
    MEMORY,
    Backend,
    HarnessKind,
    JobSpec,
    KeptBinary,
    Mode,
    SourceTree,
    TrustLevel,
    Verdict,
    device_of,
)


def of_job(
    session: Session, job: Job, rival: Rival | None, judging: str
) -> tuple[KeptBinary | None, KeptBinary | None]:
    """Return the binaries of the code that a job judges and of its rival's; None where the code has to be judged.

    A comparison, or a duel of a final, replays that of the submission whose code it copies; a rejudge that of the
    result that it replaces. A new submission has none.
    """
    pair = comparisons.find(session, job.id)
    own = job.submission_id if pair is None else pair.first_id
    mine, theirs = (
        None if each is None else find(session, each, job.device, judging)
        for each in (own, None if rival is None else rival.submission_id)
    )
    return mine, theirs


def find(session: Session, submission_id: int, device: str, judging: str) -> KeptBinary | None:
    """Return the binary of a submission's ranked run, without content; None if there is no accepted run.

    It has the reason if it cannot be replayed. ``judging`` is the hash of what a job is judged by now.
    """
    run = runs.ranked_of(session, submission_id, device)
    if run is None or run.verdict is not Verdict.ACCEPTED or run.report.harness is not HarnessKind.STANDARD:
        return None
    report = run.report
    files = [each for each in report.files if each.name in (BINARY, MEMORY)]
    if run.judging != judging:
        why = "that run was of another version of the task"
    elif len(files) < 2:
        by_wall = report.trust is TrustLevel.WALL_CLOCK
        why = report.not_kept or ("it was timed by the wall clock" if by_wall else "it was not kept")
    else:
        return KeptBinary(run=run.id, device=device_of(report.environment.get("gpu") or {}), files=files)
    return KeptBinary(run=run.id, why=why)


def with_content(db: Database, binary: KeptBinary | None) -> KeptBinary | None:
    """Return a binary with the content of its files, or with the reason if one is missing.

    A job does not wait for a store that cannot be reached: its code can be judged.
    """
    if binary is None or not binary.files:
        return binary
    files = []
    for each in binary.files:
        files.append(dataclasses.replace(each, gz64=db.files.gz64(each.sha256)))
        if not files[-1].gz64:
            return KeptBinary(run=binary.run, why="its files were deleted, or cannot be reached")
    return dataclasses.replace(binary, files=files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """A job's specification, and what its dispatcher needs beside it."""

    spec: JobSpec
    code: SourceTree
    rival: Rival | None
    is_screened: bool
    machines: frozenset[str] | None
    """The machines that may judge it; None for the dispatcher's own."""
    provider_isolation: bool
    """Whether its leaderboard lets a provider's isolation stand in for our sandbox."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    task: Task
    submission: Submission
    code: SourceTree
    board: Leaderboard
    rival: Rival | None
    is_screened: bool
    binaries: tuple[KeptBinary | None, KeptBinary | None]
    """Of the submission and of the rival, without content."""


def prepare(
    db: Database, lease: Lease, backend: Backend, *, launcher: str | None = None, now: datetime
) -> Assignment:
    """Load a job's data and build its specification.

    Args:
        lease: The job.
        backend: The backend of its device.
        now: The time, for reservations of machines.
        launcher: The launcher whose machines may judge it; None if the dispatcher's own machine does.

    Raises:
        StaleLease: The submission was deleted.
        RivalDeleted: The submission to compare with was.
    """
    load = _load(db, lease, backend)
    binary, rival_binary = (with_content(db, each) for each in load.binaries)
    spec = dataclasses.replace(_spec(load, lease, backend), binary=binary, rival_binary=rival_binary)
    allowed = None
    if launcher is not None:
        with db.read() as session:
            fleet = Fleet.read(session, launcher=launcher, device=lease.job.device, now=now)
        place = fleet.place(load.board.id, is_ranked=lease.job.mode is Mode.LEADERBOARD)
        spec, allowed = place.confine(spec), place.machines
    return Assignment(
        spec=spec,
        code=load.code,
        rival=load.rival,
        is_screened=load.is_screened,
        machines=allowed,
        provider_isolation=load.board.provider_isolation,
    )


def _spec(load: _Load, lease: Lease, backend: Backend) -> JobSpec:
    spec = build_job_spec(
        load.task,
        job_id=lifecycle.job_name(lease),
        submission=load.code,
        # A comparison is queued as practice but measured like a ranked run.
        mode=Mode.LEADERBOARD if load.rival is not None else lease.job.mode,
        backend=backend,
        harness=load.board.harness,
        build_scope=build_scope(load.submission.user),
        seeds_below=load.board.seeds_below,
    )
    if load.submission.profile is not None:
        spec = dataclasses.replace(spec, profile=load.submission.profile)
    # A leaderboard that ranks replayed times only does not affect the measurement: other results are stored
    # too, and rank if the rule changes.
    if load.rival is None:
        return spec
    if load.rival.error is not None:
        spec = dataclasses.replace(spec, rival_error=load.rival.error)
    elif lease.job.mode is not Mode.LEADERBOARD:
        # A comparison, which anybody may ask for with any code.
        spec = dataclasses.replace(spec, hidden_tests=[], hidden_benchmarks=[], hidden_work=[])
    return dataclasses.replace(spec, rival=placed(load.rival.code, load.task, spec.harness))


def _load(db: Database, lease: Lease, backend: Backend) -> _Load:
    job = lease.job
    with db.read() as session:
        submission = submissions.find(session, job.submission_id)
        code = submissions.find_code(session, job.submission_id)
        if submission is None or code is None:
            raise StaleLease(f"submission {job.submission_id} was deleted")
        board = find_board(session, submission.leaderboard)
        rival = duels.find_rival(session, job, submission, board)
        task = task_versions.load(session, job.task_hash)
        binaries: tuple[KeptBinary | None, KeptBinary | None] = (None, None)
        if backend is Backend.CUDA:  # elsewhere calls are not replayed
            binaries = of_job(session, job, rival, task.judging(board.harness))
        return _Load(
            task=task,
            submission=submission,
            code=code,
            board=board,
            rival=rival,
            is_screened=screenings.find(session, submission.id) is not None,
            binaries=binaries,
        )


def build_scope(user: str) -> str:
    """Return the name under which a machine keeps this user's builds, without revealing the user."""
    return hashlib.sha256(user.encode()).hexdigest()
