"""Submissions with their code, and one run for each GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.submissions.queries.submissions import hash_of, priority_of
from kernelcup.clocks import Clock
from kernelcup.domain import JobState, Leaderboard
from kernelcup.engine import Database
from kernelcup.errors import Conflict
from kernelcup.tables import CodeRow, DeletedUseRow, JobRow, RunRow, SubmissionRow
from kernelcup_kernelbot.importing import bulk, codes, reports
from kernelcup_kernelbot.importing.boards import Boards
from kernelcup_kernelbot.importing.reports import HOST_CLASS, Judged
from kernelcup_kernelbot.importing.source import Source, moment

PAGE = 5_000
CODES_AT_ONCE = 500
CLIENT = "kernelbot"
ROOM = 100_000
"""Numbers left for what KernelBot still gets before the switch: they stay the same here."""
LAG = timedelta(days=1)
"""After this a submission that is not done there never will be."""
ENDED = ("succeeded", "failed", "timed_out", "hacked")
COLUMNS = ("id", "leaderboard_id", "user_id", "code_id", "file_name", "submission_time", "done")
OF_RUN = ("submission_id", "start_time", "end_time", "mode", "secret", "runner", "score", "passed")
EVIDENCE = ("compilation", "meta", "result", "system_info")


@dataclass(kw_only=True, slots=True)
class Submissions:
    """What became of KernelBot's submissions."""

    made: int = 0
    runs: int = 0
    not_text: int = 0
    """Submissions whose code is not UTF-8."""
    ungraded: int = 0
    """Without any public run: they have no result here either."""
    boards: set[int] = field(default_factory=set)
    """The leaderboards here that got some."""
    waiting: set[int] = field(default_factory=set)
    """Not done there yet: the next import brings them."""
    deleted: set[int] = field(default_factory=set)
    """Deleted here after an earlier import."""


class Importer:
    """Brings submissions, page by page.

    Args:
        source: KernelBot's database.
        people: Users here by their ids there.
        boards: Leaderboards here.
        now: The time.
    """

    def __init__(self, source: Source, people: Mapping[str, int], boards: Boards, now: datetime) -> None:
        self._source = source
        self._people = people
        self._boards = boards
        self._now = now
        self.found = Submissions()
        self._runs: Generator[Any, None, None] | None = None
        self._next: Any = None
        """The first of the runs that no submission had yet."""

    def bring(self, db: Database, since: datetime | None, *, dry_run: bool = False) -> Submissions:
        """Write what is not here yet, one transaction for each page; in a dry run only count it.

        Raises:
            Conflict: Another submission has the number of one of KernelBot's.
        """
        newest = 0
        with closing(self):
            for page in self._pages(since):
                with db.read() as session:
                    rows = self._new(session, page)
                self.found.made += len(rows)
                if rows and not dry_run:
                    newest = rows[-1].id
                    with db.write() as session:
                        self._write(session, rows)
        if newest:
            with db.write() as session:
                bulk.continue_after(session, SubmissionRow, newest + ROOM)
        return self.found

    def close(self) -> None:
        """End reading."""
        if self._runs is not None:
            self._runs.close()

    def _pages(self, since: datetime | None) -> Iterator[list[Any]]:
        sent = self._source.tables["submission"].c.submission_time
        # Also what was not done at the import before.
        where = [] if since is None else [sent >= since - LAG]
        names = (*COLUMNS, "mode_category")
        return self._source.pages("submission", *names, size=PAGE, where=where)

    def _new(self, session: Session, page: Sequence[Any]) -> list[Any]:
        """Return the rows that are done and not here."""
        first, last = page[0].id, page[-1].id
        here = sa.select(SubmissionRow.id, SubmissionRow.client)
        stored = dict(session.execute(here.where(SubmissionRow.id.between(first, last))).all())
        gone = sa.select(DeletedUseRow.submission_id).where(DeletedUseRow.submission_id.between(first, last))
        deleted = set(session.scalars(gone))
        ended = self._ended(first, last) if len(stored) < len(page) else set()
        rows = []
        for row in page:
            if row.id in deleted:
                self.found.deleted.add(row.id)
            elif row.id in stored:
                _check_ours(row.id, stored[row.id])
            elif row.done or row.id in ended or moment(row.submission_time, self._now) < self._now - LAG:
                rows.append(row)
            else:
                self.found.waiting.add(row.id)
        return rows

    def _ended(self, first: int, last: int) -> set[int]:
        table = self._source.tables.get("submission_job_status")
        if table is None:
            return set()
        where = [table.c.submission_id.between(first, last), table.c.status.in_(ENDED)]
        return {row.submission_id for row in self._source.rows(table.name, "submission_id", where=where)}

    def _write(self, session: Session, rows: Sequence[Any]) -> None:
        hashes = self._write_codes(session, rows)
        sent: list[bulk.Values] = []
        results: list[tuple[Leaderboard, bulk.Values, Judged | None]] = []
        for row in rows:
            mine = self._runs_of(row.id)
            modes = [run.mode for each in mine.values() for run in each]
            mode = reports.mode_of(row.mode_category, modes)
            board = self._boards.by_id[row.leaderboard_id]
            at = moment(row.submission_time, self._now)
            owner = {"leaderboard_id": board.id, "user_id": self._people[row.user_id], "mode": mode.value}
            name = codes.file_name(row.file_name)
            values = {
                "id": row.id,
                "code_hash": hashes[row.code_id, name],
                "file_name": name,
                "client": CLIENT,
            }
            sent.append(values | owner | {"created_at": at})
            job = owner | {"submission_id": row.id, "priority": int(priority_of(mode)), "created_at": at}
            judged = [(device, reports.judged(row.id, mode, each)) for device, each in sorted(mine.items())]
            results += [(board, job | {"device": device}, result) for device, result in judged]
            if not judged and board.devices:
                self.found.ungraded += 1
                results.append((board, job | {"device": board.devices[0]}, None))
            self.found.boards.add(board.id)
        bulk.insert(session, SubmissionRow, sent)
        self._write_results(session, results)

    def _write_results(
        self, session: Session, results: Sequence[tuple[Leaderboard, bulk.Values, Judged | None]]
    ) -> None:
        jobs, runs = [], []
        numbers = bulk.reserve(session, JobRow, len(results))
        for number, (board, job, result) in zip(numbers, results, strict=True):
            times = job["created_at"], job["created_at"]
            if result is not None:
                times = moment(result.started_at, self._now), moment(result.finished_at, self._now)
                runs.append(_run(board, number, result, *times))
            state = JobState.CANCELLED if result is None else JobState.DONE
            jobs.append(
                job
                | {"id": number, "task_hash": board.task_hash, "state": state.value}
                | {"reason": "" if result is not None else "KernelBot has no result of it"}
                | {"queued_at": job["created_at"], "started_at": times[0], "finished_at": times[1]}
            )
        bulk.insert(session, JobRow, jobs)
        bulk.insert(session, RunRow, runs)
        self.found.runs += len(runs)

    def _write_codes(self, session: Session, rows: Sequence[Any]) -> dict[tuple[int, str], str]:
        """Store codes, and return the hash of each by its number there and the file's name."""
        names: dict[int, set[str]] = defaultdict(set)
        for row in rows:
            names[row.code_id].add(codes.file_name(row.file_name))
        table = self._source.tables["code_files"]
        hashes: dict[tuple[int, str], str] = {}
        for part in bulk.parts(list(names), CODES_AT_ONCE):
            trees = {
                (code.id, name): codes.tree_of(name, bytes(code.code))
                for code in self._source.rows("code_files", "id", "code", where=[table.c.id.in_(part)])
                for name in names[code.id]
            }
            hashes |= {key: hash_of(tree) for key, tree in trees.items()}
            stored = {hashes[key]: codes.row_of(tree) for key, tree in trees.items()}
            bulk.insert_absent(session, CodeRow, list(stored.values()))
            self.found.not_text += sum(len(tree.files) > 1 for tree in trees.values())
        return hashes

    def _runs_of(self, number: int) -> dict[str, list[Any]]:
        """Return the public runs of a submission by device; submissions are asked for in their order."""
        found: dict[str, list[Any]] = defaultdict(list)
        if self._runs is None:
            self._runs = self._runs_from(number)
            self._next = next(self._runs, None)
        while self._next is not None and self._next.submission_id <= number:
            if self._next.submission_id == number:
                found[self._boards.device(self._next.runner)].append(self._next)
            self._next = next(self._runs, None)
        return found

    def _runs_from(self, first: int) -> Generator[Any, None, None]:
        """Read the runs once, in the order of submissions: KernelBot has no index by which to find some."""
        table = self._source.tables["runs"]
        where = [
            table.c.submission_id >= first,
            table.c.secret.is_not(True),
            table.c.mode.in_(reports.PUBLIC),
            table.c.runner.is_not(None),
        ]
        order = ("submission_id", "id")
        return self._source.stream("runs", *OF_RUN, *EVIDENCE, where=where, order=order)


def _check_ours(number: int, client: str) -> None:
    if client != CLIENT:
        raise Conflict(
            f"Submission {number} exists here and is not KernelBot's, which has another of that number. "
            "Import into a database without submissions of its own."
        )


def _run(
    board: Leaderboard, job_id: int, result: Judged, started: datetime, finished: datetime
) -> bulk.Values:
    report = result.report
    return {
        "job_id": job_id,
        "attempt": 1,
        "task_hash": board.task_hash,
        "counted": True,
        "verdict": report.verdict.value,
        "score_s": result.score_s,
        "trust": report.trust.value,
        "backend": report.backend.value,
        "started_at": started,
        "finished_at": finished,
        "harness_hash": "",
        "machine": HOST_CLASS,
        "host_class": HOST_CLASS,
        "report": reports.compact(report),
        "judging": board.judging,
        "clock": Clock.OWN.value,
    }
