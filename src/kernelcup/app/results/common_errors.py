"""What the people of a leaderboard fail at."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup.app.boards.boards import find_managed
from kernelcup.app.operation import Board, operation
from kernelcup.app.people.queries import users
from kernelcup.app.results.queries import attempts, runs
from kernelcup.domain import Actor
from kernelcup.engine import Database
from kernelcup.reporting.words import next_step
from kernelcup_harness.protocol import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class CommonError:
    """An error that the last submissions of some people have in common."""

    verdict: Verdict
    means: str
    """What it means, and what to do."""
    users: list[str]


@operation("GET", "/leaderboards/{name}/errors", "admin errors", subject="results")
def common_errors(db: Database, actor: Actor, board: Board) -> list[CommonError]:
    """List the errors of everybody's last submission, the most common first; only for managers."""
    with db.read() as session:
        found = find_managed(session, board, actor)
        last = {
            each.user_id: each for each in attempts.of_board(session, found.id) if each.run_id is not None
        }
        failed = {each.job_id: each for each in last.values() if each.verdict is not Verdict.ACCEPTED}
        reports = runs.counted(session, list(failed))
        names = users.names(session, [each.user_id for each in failed.values()])
    people: dict[tuple[Verdict, str], list[str]] = {}
    for job_id, run in reports.items():
        people.setdefault((run.verdict, next_step(run.report)), []).append(names[failed[job_id].user_id])
    errors = [
        CommonError(verdict=verdict, means=means, users=sorted(who))
        for (verdict, means), who in people.items()
    ]
    return sorted(errors, key=lambda each: (-len(each.users), each.verdict.value, each.means))
