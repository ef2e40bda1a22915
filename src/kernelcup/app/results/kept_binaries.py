"""Which kept binaries a job replays in the place of code: those of the ranked runs that it compares or judges again."""

from __future__ import annotations

import dataclasses

from kernelcup.app.queue.queries import comparisons
from kernelcup.app.results.duels import Rival
from kernelcup.app.results.queries import runs
from kernelcup.domain import Job
from kernelcup.engine import Database, Session
from kernelcup_harness.protocol import (
    BINARY,
    MEMORY,
    HarnessKind,
    KeptBinary,
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
