"""Commands that work with this machine's database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from kernelcup.app.access import HERE
from kernelcup.app.boards import boards
from kernelcup.app.machines import dispatchers, outages
from kernelcup.app.operation import OPERATIONS, Operation
from kernelcup.app.people.user_names import actor_of, ensure_user
from kernelcup.app.queue import progress as progresses
from kernelcup.app.queue import shown
from kernelcup.app.submissions import submissions as service
from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Ask
from kernelcup.cli.show.output import plain
from kernelcup.client.models import BoardInfo
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Task
from kernelcup.errors import Forbidden, NotFound
from kernelcup.reporting.results import SubmissionInfo

if TYPE_CHECKING:
    from kernelcup.client.api import Api
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database
    from kernelcup.screen.findings import Screening

POLL_INTERVAL_S = 0.5

T = TypeVar("T")


class LocalBackend:
    """This machine's database, as its operator."""

    server = None
    signed_in = True
    option = ""

    def __init__(self, config: Config, db: Database) -> None:
        self._config = config
        self._db = db

    @property
    def config(self) -> Config:
        """Return this machine's configuration."""
        return self._config

    def call(self, call: Callable[..., T], *, as_user: str | None = None, **values: Any) -> T:
        """Run an operation as this machine's operator, or or as or for a user where it allows that."""
        operation, now = OPERATIONS[call], datetime.now(UTC)
        provided = {
            "db": self._db,
            "actor": self._actor(operation, as_user, now),
            "now": now,
            "entry": HERE,
            "server": wiring.address_of(self._config),
            "creator": wiring.creator_name(self._db, as_user) if "creator" in operation.provided else None,
            **self._config.for_operations,
        }
        with (
            wiring.pointing_to("give your user name with --user", Forbidden)
            if operation.personal and operation.method != "DELETE"
            else nullcontext()
        ):
            answer: Any = operation.run(provided, values)
        return BoardInfo.of(answer) if isinstance(answer, Leaderboard) else answer  # type: ignore[return-value]

    def _actor(self, operation: Operation, user: str | None, now: datetime) -> Actor:
        """Return who acts; an account is made for a user who changes something."""
        if not operation.personal:
            return OPERATOR
        name = wiring.user_name(user)
        return actor_of(self._db, name if operation.method == "GET" else ensure_user(self._db, name, now=now))

    def ask(self, here: Callable[[Database], T], there: Callable[[Api], T]) -> T:  # noqa: ARG002 - the port's
        """Return the answer of a service."""
        return here(self._db)

    def check_judges(self) -> None:
        """Raise ``ConfigError`` if no server runs here and this machine cannot judge."""
        if not self._is_served(device.name for device in self._config.devices):
            wiring.make_dispatcher(self._config, self._db)

    def _is_served(self, devices: Iterable[str]) -> bool:
        """Return whether a running `kernelcup serve` judges on all of these devices."""
        if not (self._config.data_dir / wiring.ADDRESS).is_file():
            return False
        at_work = [each for each in dispatchers.list_alive(self._db, datetime.now(UTC)) if not each.draining]
        return {name for each in at_work for name in each.devices}.issuperset(devices)

    def submit(self, ask: Ask) -> SubmissionInfo:
        """Put a submission into the queue."""
        from kernelcup.app.submissions.submit import submit

        made = submit(
            self._db,
            user=wiring.user_name(ask.user),
            file_name=ask.file_name,
            content=ask.content,
            mode=ask.mode,
            now=datetime.now(UTC),
            board=ask.board,
            devices=ask.devices,
            idempotency_key=ask.key,
            known_devices=self._config.devices,
            profile=ask.profile,
        )
        return self.submission(made.id)

    def judge(self, submission: SubmissionInfo, *, quiet: bool) -> None:
        """Let the running server judge a submission; without one, work off the queue until it has ended."""
        from kernelcup.cli.show import render

        self._follow(submission.id, quiet=quiet, goes_on=lambda: self._is_served(submission.devices))
        if self.submission(submission.id).ended:
            return

        with render.StageLines(quiet=quiet) as lines:

            def take(progress: progresses.Progress) -> None:
                if (
                    isinstance(progress, progresses.JobProgress)
                    and progress.job.submission_id == submission.id
                ):
                    if len(submission.devices) > 1:
                        lines.relabel(progress.job.device)
                    lines.take(progress.event)
                if isinstance(progress, progresses.GpuOut) and progress.fault.device in submission.devices:
                    lines.say(outages.outage_text([progress.fault]))

            wiring.tell_wait(self._config, submission.devices, lines.say)
            try:
                wiring.make_dispatcher(self._config, self._db, take).run_until(submission.id)
            except BaseException as error:
                error.add_note(
                    f"submission {submission.id} stays in the queue; `kernelcup serve` judges it, "
                    f"`kernelcup cancel {submission.id}` withdraws it"
                )
                raise

    def watch(self, submission_id: int, *, quiet: bool) -> None:
        """Wait until another process has judged a submission."""
        self._follow(submission_id, quiet=quiet, goes_on=lambda: True)

    def _follow(self, submission_id: int, *, quiet: bool, goes_on: Callable[[], bool]) -> None:
        last = ""
        while goes_on() and not (view := self.submission(submission_id)).ended:
            now = progress_text(view)
            if now != last and not quiet:
                typer.echo(now)
            last = now
            time.sleep(POLL_INTERVAL_S)

    def submission(self, submission_id: int) -> SubmissionInfo:
        """Return a submission with its reports."""
        return self.call(shown.show, submission_id=submission_id)

    def screening(self, submission_id: int) -> Screening | None:
        """Return a second opinion's findings."""
        return service.screening_of(self._db, submission_id)

    def boards(self) -> list[BoardInfo]:
        """Return all leaderboards."""
        return [BoardInfo.of(board) for board in boards.list_boards(self._db)]

    def board(self, name: str) -> BoardInfo:
        """Return a leaderboard. Raise ``NotFound`` with what to do next."""
        with wiring.pointing_to("kernelcup board list", NotFound):
            return BoardInfo.of(boards.get_board(self._db, name))

    def whole_task(self, board: str) -> Task:
        """Return a leaderboard's task without its hidden cases."""
        from kernelcup.app.submissions.handout import hand_out

        return hand_out(self._db, board).task


def progress_text(view: SubmissionInfo) -> str:
    """Describe in one line the state of a submission's jobs, and why they wait."""
    parts = []
    for each in view.jobs:
        place = f", place {each.position}" if each.position is not None else ""
        why = f" ({each.waiting.reason})" if each.waiting is not None else ""
        parts.append(f"{each.device}: {each.state.value}{place}{why}")
    return plain("; ".join(parts))
