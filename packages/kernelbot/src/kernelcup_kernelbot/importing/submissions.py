"""Submissions with their code, and one run for each GPU."""

from __future__ import annotations

import base64
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.submissions.queries.submissions import hash_of, priority_of
from kernelcup.clean_text import clean_text
from kernelcup.clocks import Clock
from kernelcup.domain import JobState, Leaderboard
from kernelcup.engine import Database
from kernelcup.engine.database import upsert
from kernelcup.errors import Conflict
from kernelcup.tables import CodeRow, DeletedUseRow, JobRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import SourceTree
from kernelcup_kernelbot.importing import bulk, reports
from kernelcup_kernelbot.importing.imported import Imported
from kernelcup_kernelbot.importing.reports import HOST_CLASS, Judged
from kernelcup_kernelbot.importing.source import Source, moment

PAGE, SOME = 5_000, 500
"""Submissions of one transaction; codes and runs that are read at once."""
CLIENT = "kernelbot"
ROOM = 100_000
"""Numbers left for what KernelBot still gets before the switch: they stay the same here."""
LAG = timedelta(days=1)
"""After this a submission that is not done there never will be."""
ENDED = ("succeeded", "failed", "timed_out", "hacked")
COLUMNS = (
    "id",
    "leaderboard_id",
    "user_id",
    "code_id",
    "file_name",
    "submission_time",
    "done",
    "mode_category",
)
OF_RUN = ("submission_id", "start_time", "end_time", "mode", "secret", "runner", "score", "passed")
EVIDENCE = ("compilation", "meta", "result", "system_info")
WHOLE = ".base64"
"""Ending of the file beside a code that is no text: its bytes."""
NAME, LONGEST_NAME = "submission.py", 200

Judgements = Sequence[tuple[Any, dict[str, list[Any]]]]
"""Submissions, and their public runs by device."""


class Importer:
    """Brings submissions, page by page."""

    def __init__(
        self, source: Source, found: Imported, reasons: Mapping[tuple[int, str], str | None], now: datetime
    ) -> None:
        self._source, self._found, self._now = source, found, now
        self._reasons = reasons
        self._runs: Iterator[Any] | None = None
        self._next: Any = None
        """The first of the runs that no submission had yet."""

    def bring(self, db: Database, since: datetime | None, *, dry_run: bool = False) -> None:
        """Write what is not here yet, one transaction for each page; in a dry run only count it.

        Raises:
            Conflict: Another submission has the number of one of KernelBot's.
        """
        newest, sent = 0, self._source.tables["submission"].c.submission_time
        self._of_run = OF_RUN if dry_run else (*OF_RUN, *EVIDENCE)
        # Also what was not done at the import before.
        where = [] if since is None else [sent >= since - LAG]
        with closing(self._source.pages("submission", *COLUMNS, where=where, size=PAGE)) as pages:
            for page in pages:
                with db.read() as session:
                    rows = self._new(session, page)
                judged = [(row, self._runs_of(row.id)) for row in rows]
                self._count(judged)
                if rows and not dry_run:
                    newest = rows[-1].id
                    with db.write() as session:
                        self._write(session, judged)
        if newest:
            with db.write() as session:
                bulk.continue_after(session, SubmissionRow, newest + ROOM)

    def _new(self, session: Session, page: Sequence[Any]) -> list[Any]:
        """Return the rows that are done and not here."""
        first, last, rows = page[0].id, page[-1].id, []
        here = sa.select(SubmissionRow.id, SubmissionRow.client)
        stored = dict(session.execute(here.where(SubmissionRow.id.between(first, last))).all())
        gone = sa.select(DeletedUseRow.submission_id).where(DeletedUseRow.submission_id.between(first, last))
        deleted = set(session.scalars(gone))
        ended = self._ended(first, last) if len(stored) < len(page) else set()
        for row in page:
            is_done = row.done or row.id in ended or moment(row.submission_time, self._now) < self._now - LAG
            if row.id in stored:
                _check_ours(row.id, stored[row.id])
            elif is_done and row.id not in deleted:
                rows.append(row)
            else:
                self._found.absent.add(row.id)
                self._found.counts["deleted" if row.id in deleted else "waiting"] += 1
        return rows

    def _ended(self, first: int, last: int) -> set[int]:
        table = self._source.tables.get("submission_job_status")
        if table is None:
            return set()
        where = [table.c.submission_id.between(first, last), table.c.status.in_(ENDED)]
        return {row.submission_id for row in self._source.rows(table.name, "submission_id", where=where)}

    def _count(self, judged: Judgements) -> None:
        counts = self._found.counts
        counts["submissions"] += len(judged)
        for row, mine in judged:
            counts["results"] += len(mine)
            counts["ungraded"] += not mine
            counts["rejected"] += sum(self._reasons.get((row.id, device)) is not None for device in mine)

    def _write(self, session: Session, judged: Judgements) -> None:
        hashes, sent, jobs, runs = self._write_codes(session, [row for row, _ in judged]), [], [], []
        numbers = iter(bulk.reserve(session, JobRow, sum(max(len(mine), 1) for _, mine in judged)))
        for row, mine in judged:
            board, name = self._found.boards[row.leaderboard_id], file_name(row.file_name)
            mode = reports.mode_of(row.mode_category, list(chain.from_iterable(mine.values())))
            at = moment(row.submission_time, self._now)
            of: bulk.Values = {
                "leaderboard_id": board.id,
                "user_id": self._found.users[row.user_id],
                "mode": mode.value,
            }
            of |= {"created_at": at}
            code = {"code_hash": hashes[row.code_id, name], "file_name": name}
            sent.append({"id": row.id, "client": CLIENT} | code | of)
            of |= {"submission_id": row.id, "task_hash": board.task_hash, "priority": int(priority_of(mode))}
            for device, own in sorted(mine.items()) or [(board.devices[0], [])]:
                result = reports.judged(row.id, mode, own) if own else None
                end = _end(result, at, self._reasons.get((row.id, device)))
                jobs.append(of | {"id": next(numbers), "device": device} | end)
                if result is not None:
                    runs.append(_run(board, jobs[-1], result))
            self._found.changed.add(board.name)
        for table, values in ((SubmissionRow, sent), (JobRow, jobs), (RunRow, runs)):
            bulk.insert(session, table, values)

    def _write_codes(self, session: Session, rows: Sequence[Any]) -> dict[tuple[int, str], str]:
        """Store codes, and return the hash of each by its number there and the file's name."""
        names: dict[int, set[str]] = defaultdict(set)
        for row in rows:
            names[row.code_id].add(file_name(row.file_name))
        hashes: dict[tuple[int, str], str] = {}
        where = [self._source.tables["code_files"].c.id.in_(names)]
        with closing(self._source.pages("code_files", "id", "code", where=where, size=SOME)) as pages:
            for page in pages:
                stored = []
                for number, name, code in ((each.id, n, each.code) for each in page for n in names[each.id]):
                    tree = tree_of(name, bytes(code))
                    hashes[number, name] = hash_of(tree)
                    files = {"": tree.code} if len(tree.files) == 1 else tree.files
                    stored.append({"hash": hashes[number, name], "files": files})
                    self._found.counts["not_text"] += len(tree.files) > 1
                session.execute(upsert(session, CodeRow).on_conflict_do_nothing(), stored)
        return hashes

    def _runs_of(self, number: int) -> dict[str, list[Any]]:
        """Return the public runs of a submission by device; submissions are asked for in their order."""
        found: dict[str, list[Any]] = defaultdict(list)
        if self._runs is None:
            self._runs = self._runs_from(number)
            self._next = next(self._runs, None)
        while self._next is not None and self._next.submission_id <= number:
            if self._next.submission_id == number:
                found[self._found.device(self._next.runner)].append(self._next)
            self._next = next(self._runs, None)
        return found

    def _runs_from(self, first: int) -> Iterator[Any]:
        """Read the runs once, in the order of submissions: KernelBot has no index by which to find some."""
        run = self._source.tables["runs"].c
        has_score = run.passed & run.score.is_not(None)
        where = [run.submission_id >= first, ~run.secret, run.runner.is_not(None)]
        where.append(run.mode.in_(reports.PUBLIC) | has_score)
        order = ("submission_id", "id")
        pages = self._source.pages("runs", *self._of_run, where=where, order=order, size=SOME)
        return chain.from_iterable(pages)


def tree_of(name: str, content: bytes) -> SourceTree:
    """Return a code as it is stored here.

    Text becomes one file. Bytes that are no UTF-8, or have a NUL, become two: as text with U+FFFD, and whole.
    """
    text = clean_text(content.decode("utf-8", "replace"))
    if text.encode() == content:
        return SourceTree.of(text, name)
    return SourceTree(files={name: text, name + WHOLE: base64.b64encode(content).decode()}, entry=name)


def file_name(stored: str | None) -> str:
    """Return the name of a submission's file without folders; KernelBot keeps any text."""
    name = posixpath.basename((stored or "").replace("\\", "/")).strip()
    return name if name.isprintable() and 0 < len(name) <= LONGEST_NAME and name.strip(".") else NAME


def _check_ours(number: int, client: str) -> None:
    if client != CLIENT:
        raise Conflict(
            f"Submission {number} exists here and is not KernelBot's, which has another of that number. "
            "Import into a database without submissions of its own."
        )


def _end(result: Judged | None, at: datetime, reason: str | None) -> bulk.Values:
    """Return how a job ended, of a submission that came at this time, and why KernelBot does not rank it."""
    times = {"queued_at": at, "started_at": at, "finished_at": at}
    if result is None:
        return times | {"state": JobState.CANCELLED.value, "reason": "KernelBot has no result of it"}
    times |= {"started_at": moment(result.started_at, at), "finished_at": moment(result.finished_at, at)}
    return times | state_of(reason)


def state_of(reason: str | None) -> bulk.Values:
    """Return the state of a judged job, rejected if KernelBot does not rank it for a reason."""
    state = JobState.DONE if reason is None else JobState.REJECTED
    return {"state": state.value, "reason": reason or ""}


def _run(board: Leaderboard, job: bulk.Values, result: Judged) -> bulk.Values:
    return {
        "job_id": job["id"],
        "attempt": 1,
        "task_hash": board.task_hash,
        "counted": True,
        "verdict": result.verdict.value,
        "score_s": result.score_s,
        "trust": reports.TRUST.value,
        "backend": reports.BACKEND.value,
        "started_at": job["started_at"],
        "finished_at": job["finished_at"],
        "harness_hash": "",
        "machine": HOST_CLASS,
        "host_class": HOST_CLASS,
        "report": result.report,
        "judging": board.judging,
        "clock": Clock.OWN.value,
    }
