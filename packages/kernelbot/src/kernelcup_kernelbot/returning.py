"""The way back: what came since the switch is written into KernelBot's tables, in one transaction."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from kernelcup.app.people.queries.users import name_key
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import OPERATOR, Ruling
from kernelcup.engine import Database
from kernelcup.reporting.phrases import plural
from kernelcup.reporting.results import SubmissionInfo
from kernelcup.tables import CodeRow, IdentityRow, LeaderboardRow, SubmissionRow, UserRow
from kernelcup_harness.protocol import Mode
from kernelcup_kernelbot.importing.boards import names_here
from kernelcup_kernelbot.importing.source import Source
from kernelcup_kernelbot.popcorn import forms

PROVIDERS = ("discord", "github")
NUMBERED = ("code_files", "submission", "runs", "submission_job_status")
FOLLOWED = "kernelbot"
"""The client of submissions that came from KernelBot itself."""
CONTINUE = """
SELECT setval(numbers, greatest((SELECT max(id) FROM TABLE), pg_sequence_last_value(CAST(numbers AS regclass))))
FROM pg_get_serial_sequence('TABLE', 'id') AS numbers
"""


@dataclass(kw_only=True, slots=True)
class Returned:
    """What was written, and what cannot be."""

    written: Counter[str] = field(default_factory=Counter)
    """Rows by table."""
    renumbered: list[tuple[int, int]] = field(default_factory=list)
    """The number here and the one there, where that number was in use."""
    there_already: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """How many submissions were left out, by reason."""

    def lines(self) -> list[str]:
        """Return what to tell the operator."""
        rows = [f"{table}: {plural(self.written[table], 'row')}" for table in ("user_info", *NUMBERED)]
        others = [f"left out: {count}, {reason}" for reason, count in sorted(self.left_out.items())]
        moved = [f"submission {here} has number {there} there" for here, there in self.renumbered]
        return [*rows, f"there already: {plural(self.there_already, 'submission')}", *others, *moved]


def give_back(
    source: Source, db: Database, *, since: datetime, gpus: Mapping[str, str], dry_run: bool = False
) -> Returned:
    """Write the submissions since a moment with their users, code and results; what is there is left as it is.

    Args:
        source: KernelBot's tables, opened for writing.
        db: The database here.
        since: When submissions began to come here.
        gpus: The GPU there by the device here, in small letters, where they differ.
        dry_run: Whether to write nothing in the end.
    """
    work = _Return(source, db, gpus)
    attempt = source.attempt()
    for row in work.rows(since):
        work.write(row)
    if dry_run:
        attempt.rollback()
    else:
        attempt.commit()
        work.continue_numbers()
    return work.found


class _Return:
    def __init__(self, source: Source, db: Database, gpus: Mapping[str, str]) -> None:
        self.found = Returned()
        self._source, self._run, self._tables = source, source.execute, source.tables
        self._db, self._gpus = db, gpus
        sent = self._tables["submission"].c
        self._boards = {name_key(name): number for number, name in names_here(source).items()}
        self._users = set(self._run(sa.select(self._tables["user_info"].c.id)).scalars())
        self._taken = set(self._run(sa.select(sent.id)).scalars())
        self._hashed = self._tables["code_files"].c.hash.computed is None

    def rows(self, since: datetime) -> list[Any]:
        """Return the submissions here since a moment, but for those that came from KernelBot, oldest first."""
        query = (
            sa.select(SubmissionRow, LeaderboardRow.name, UserRow, CodeRow.files)
            .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
            .join(UserRow, UserRow.id == SubmissionRow.user_id)
            .join(CodeRow, CodeRow.hash == SubmissionRow.code_hash)
            .where(SubmissionRow.created_at >= since, SubmissionRow.client != FOLLOWED)
            .order_by(SubmissionRow.id)
        )
        with self._db.read() as session:
            rows = session.execute(query).all()
            session.expunge_all()
        return list(rows)

    def write(self, row: Any) -> None:
        """Write one submission, unless it is there or KernelBot cannot have it."""
        submission, board, user, files = row
        board_id = self._boards.get(name_key(board))
        if board_id is None:
            return self._leave_out("KernelBot has no such leaderboard")
        view = show_submission(self._db, submission.id, viewer=OPERATOR)
        if not view.ended:
            return self._leave_out("not judged yet: run this again when it is")
        account = self._account(user)
        if account is None:
            return self._leave_out("its author has no account at Discord or GitHub")
        if len(files) > 1:
            self.found.left_out["of these only the file with the kernel, not its others"] += 1
        code = files.get("", files.get(submission.file_name, "")).encode()
        code_id = self._code(code)
        at = submission.created_at
        values = {"leaderboard_id": board_id, "user_id": account, "code_id": code_id, "submission_time": at}
        if self._is_there(values):
            self.found.there_already += 1
            return None
        number = self._number(submission.id)
        told = forms.job_of(view)
        group = "leaderboard" if view.mode is Mode.LEADERBOARD else "test"
        expelled = all(job.ruling is Ruling.REJECTED for job in view.jobs)
        values |= {"id": number, "file_name": submission.file_name, "done": True}
        values |= {"status": "hacked" if expelled else "active", "mode_category": group}
        self._insert("submission", values)
        ends = [self._runs(number, view), at]
        status = {"submission_id": number, **told, "created_at": at}
        self._insert("submission_job_status", status | {"last_heartbeat": max(filter(None, ends))})
        return None

    def continue_numbers(self) -> None:
        """Have the numbers of new rows there continue behind all that there are."""
        for name in NUMBERED:
            self._run(self._source.text(CONTINUE.replace("TABLE", f"{{{name}}}")))

    def _leave_out(self, reason: str) -> None:
        self.found.left_out[reason] += 1

    def _account(self, user: Any) -> str | None:
        """Return the user's id there, and write the user if it is new; None without an account to sign in with."""
        query = sa.select(IdentityRow.provider, IdentityRow.subject).where(IdentityRow.user_id == user.id)
        with self._db.read() as session:
            known: dict[str, str] = {row.provider: row.subject for row in session.execute(query)}
        ids = {provider: known[provider] for provider in PROVIDERS if provider in known}
        if there := [subject for subject in ids.values() if subject in self._users]:
            return there[0]
        if not ids:
            return None
        provider, subject = next(iter(ids.items()))
        values = {"id": subject, "user_name": user.name, "cli_valid": False, "cli_auth_provider": provider}
        values |= {"is_banned": user.banned_at is not None}
        self._insert("user_info", values | {"created_at": user.created_at.replace(tzinfo=None)})
        self._users.add(subject)
        return subject

    def _code(self, code: bytes) -> int:
        table, hashed = self._tables["code_files"], hashlib.sha256(code).hexdigest()
        known = self._run(sa.select(table.c.id).where(table.c.hash == hashed).limit(1)).scalar()
        if known is not None:
            return int(known)
        values = {"code": code} | ({"hash": hashed} if self._hashed else {})
        return int(self._insert("code_files", values))

    def _is_there(self, values: Mapping[str, Any]) -> bool:
        columns = self._tables["submission"].c
        same = sa.and_(*(columns[name] == value for name, value in values.items()))
        return self._run(sa.select(columns.id).where(same).limit(1)).scalar() is not None

    def _number(self, wanted: int) -> int:
        number = wanted if wanted not in self._taken else max(self._taken) + 1
        self._taken.add(number)
        if number != wanted:
            self.found.renumbered.append((wanted, number))
        return number

    def _runs(self, number: int, view: SubmissionInfo) -> datetime | None:
        """Write the stages of all jobs as runs, and return the end of the last one."""
        last = None
        for job in view.jobs:
            for run in forms.runs_of(job, view.mode):
                start, end = (datetime.fromisoformat(run[name]) for name in ("start_time", "end_time"))
                verdict = None if job.verdict is None else job.verdict.value
                meta = {"judged_by": forms.SERVICE, "run": job.run, "verdict": verdict}
                gpu = self._gpus.get(job.device.lower(), job.device)
                told = {name: run[name] for name in ("mode", "secret", "passed")}
                score = None if run["score"] is None else Decimal(str(run["score"]))  # with all its digits
                values = {
                    "submission_id": number,
                    "start_time": start,
                    "end_time": end,
                    "runner": gpu,
                    "score": score,
                    **told,
                }
                values |= {"meta": meta, "result": {}, "system_info": {}}
                self._insert("runs", values)
                if score is not None:  # ranked on secret inputs: there that is a run of its own
                    self._insert("runs", values | {"secret": True})
                last = max(last or end, end)
        return last

    def _insert(self, name: str, values: Mapping[str, Any]) -> Any:
        table = self._tables[name]
        made = self._run(sa.insert(table).values(**values).returning(table.c.id))
        self.found.written[name] += 1
        return made.scalar_one()
