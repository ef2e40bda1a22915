"""Compare what KernelBot and this server say of the same submissions: a page and a table."""

from __future__ import annotations

import csv
import io
import math
import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

import sqlalchemy as sa
from jinja2 import Environment, Template

from kernelcup.engine import Database
from kernelcup.reporting.phrases import plural
from kernelcup.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import estimates
from kernelcup_kernelbot.importing.source import IS_TIME, SCORES, Source

KEY = "kernelbot-"
FAR = 3
"""People who move by more places than this are named."""
FEWEST_RANKED = 3
"""People with a place on both sides, for a correlation."""
THERE = f"""
SELECT
    s.id AS kernelbot, lower(coalesce(r.runner, '')) AS runner, coalesce(nullif(u.user_name, ''), u.id) AS "user",
    coalesce('failed in ' || (array_agg(r.mode ORDER BY r.id) FILTER (WHERE NOT r.passed))[1], min(of.reason), 'passed')
        AS there_verdict,
    CAST(min(of.score) FILTER (WHERE of.reason IS NULL AND of.{IS_TIME}) AS float) AS there_s,
    CAST(extract(epoch FROM max(r.end_time) - s.submission_time) AS float) AS there_wait_s
FROM {{submission}} s JOIN {{user_info}} u ON u.id = s.user_id JOIN {{runs}} r ON r.submission_id = s.id
LEFT JOIN ({SCORES}) of ON of.id = s.id AND of.runner = r.runner
WHERE s.id = ANY(:numbers) GROUP BY s.id, 2, u.id
"""
"""What KernelBot says of submissions, by GPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One submission on one GPU, there and here."""

    kernelbot: int
    here: int
    board: str
    gpu: str
    user: str
    there_verdict: str
    here_verdict: str
    there_s: float | None
    """The score, for ranked ones that passed."""
    here_s: float | None
    there_wait_s: float | None
    """Seconds from the submission to the verdict."""
    here_wait_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Times and places on one board and GPU."""

    board: str
    gpu: str
    pairs: int
    """Submissions with a time on both sides."""
    ratio: float | None
    """Time here by the time there, the middle of all."""
    low: float | None
    high: float | None
    people: int
    spearman: float | None
    """Of the places; None with fewer than three people, or if all share one."""
    moved: tuple[tuple[str, int, int], ...]
    """Who moves by more than three places, with the place there and here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """All that is compared."""

    pairs: tuple[Pair, ...]
    open: int
    """Submissions that are not judged here yet."""

    @property
    def verdicts(self) -> dict[str, Counter[str]]:
        """Return how often each pair of verdicts came, by the one there."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for each in self.pairs:
            found[each.there_verdict][each.here_verdict] += 1
        return dict(sorted(found.items()))

    @property
    def rankings(self) -> list[Ranking]:
        """Return times and places by board and GPU."""
        found: dict[tuple[str, str], list[Pair]] = defaultdict(list)
        for each in self.pairs:
            found[each.board, each.gpu].append(each)
        return [_ranking(*key, pairs) for key, pairs in sorted(found.items())]

    @property
    def waits(self) -> dict[str, tuple[float, float] | None]:
        """Return the median and the 95th percentile of the seconds to a verdict, on each side."""
        there = [each.there_wait_s for each in self.pairs if each.there_wait_s is not None]
        here = [each.here_wait_s for each in self.pairs if each.here_wait_s is not None]
        return {"KernelBot": _spread(there), "here": _spread(here)}

    def as_csv(self) -> str:
        """Return one line for each submission and GPU."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [each.name for each in fields(Pair)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(each) for each in self.pairs)
        return text.getvalue()

    def as_page(self) -> str:
        """Return a page for a browser, in one file."""
        return _template().render(found=self, far=FAR)


def compare(source: Source, db: Database) -> Comparison:
    """Compare the submissions that `kernelcup kernelbot follow` sent."""
    sent, jobs, runs = SubmissionRow, JobRow, RunRow
    query = (
        sa.select(sent.id, sent.idempotency_key, sent.created_at, LeaderboardRow.name)
        .add_columns(jobs.device, jobs.finished_at, runs.verdict, runs.score_s)
        .join(jobs, jobs.submission_id == sent.id)
        .join(LeaderboardRow, LeaderboardRow.id == sent.leaderboard_id)
        .outerjoin(runs, sa.and_(runs.job_id == jobs.id, runs.counted))
        .where(sent.client == "kernelbot", sent.idempotency_key.startswith(KEY, autoescape=True))
        .order_by(sent.id, jobs.device)
    )
    with db.read() as session:
        rows = session.execute(query).all()
    judged = [row for row in rows if row.verdict is not None and row.finished_at is not None]
    there = _there(source, {int(row.idempotency_key.removeprefix(KEY)) for row in judged})
    pairs = []
    for row in judged:
        by_gpu = there[int(row.idempotency_key.removeprefix(KEY))]
        old = by_gpu.get(row.device.lower()) or (next(iter(by_gpu.values())) if len(by_gpu) == 1 else None)
        if old is not None:
            waited = (row.finished_at - row.created_at).total_seconds()
            named = {"board": row.name, "gpu": row.device, "here": row.id, "here_verdict": row.verdict}
            pairs.append(Pair(**old, **named, here_s=row.score_s, here_wait_s=waited))
    return Comparison(pairs=tuple(pairs), open=len(rows) - len(judged))


def _there(source: Source, numbers: Collection[int]) -> Mapping[int, Mapping[str, dict[str, Any]]]:
    """Return what KernelBot says of submissions, by number and GPU."""
    found: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in source.execute(source.text(THERE), {"numbers": sorted(numbers)}).mappings():
        values = dict(row)
        found[row["kernelbot"]][values.pop("runner")] = values
    return found


def _ranking(board: str, gpu: str, pairs: Sequence[Pair]) -> Ranking:
    timed = [(each.there_s, each.here_s, each.user) for each in pairs]
    both = [(there, here, user) for there, here, user in timed if there and here]
    logs = [math.log(here / there) for there, here, _user in both]
    ends = estimates.interval(logs)
    there, here = _places((user, s) for s, _, user in both), _places((user, s) for _, s, user in both)
    people = sorted(there)
    moved = [(user, there[user], here[user]) for user in people if abs(there[user] - here[user]) > FAR]
    return Ranking(
        board=board,
        gpu=gpu,
        pairs=len(both),
        ratio=math.exp(statistics.fmean(ends) if ends else logs[0]) if logs else None,
        low=math.exp(ends[0]) if ends else None,
        high=math.exp(ends[1]) if ends else None,
        people=len(people),
        spearman=_correlation([there[each] for each in people], [here[each] for each in people]),
        moved=tuple(sorted(moved, key=lambda each: each[1])),
    )


def _places(times: Iterable[tuple[str, float]]) -> dict[str, int]:
    """Return the place of each person's best time; equal times share one."""
    best: dict[str, float] = {}
    for user, seconds in times:
        best[user] = min(seconds, best.get(user, math.inf))
    ordered = sorted(best.values())
    return {user: bisect_left(ordered, seconds) + 1 for user, seconds in best.items()}


def _correlation(there: Sequence[int], here: Sequence[int]) -> float | None:
    """Return Spearman's correlation: Pearson's of the ranks, ties at the middle of theirs."""
    if len(there) < FEWEST_RANKED or len(set(there)) == 1 or len(set(here)) == 1:
        return None
    return statistics.correlation(_middles(there), _middles(here))


def _middles(places: Sequence[int]) -> list[float]:
    tied: Mapping[int, int] = Counter(places)
    return [place + (tied[place] - 1) / 2 for place in places]


def _spread(values: Sequence[float]) -> tuple[float, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]


@cache
def _template() -> Template:
    text = resources.files("kernelcup_kernelbot").joinpath("comparison.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plural"] = plural
    return environment.from_string(text)
