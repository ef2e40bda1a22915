"""Commands that work with a server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Ask, refuse_user
from kernelcup.cli.show.output import plain
from kernelcup.client.api import Api
from kernelcup.client.models import BoardInfo
from kernelcup.domain import Task
from kernelcup.errors import NotFound, ServerUnavailable
from kernelcup_harness.protocol import ProfileOptions, to_json

if TYPE_CHECKING:
    from kernelcup.client.transport import Client
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database
    from kernelcup.reporting.results import SubmissionInfo

T = TypeVar("T")


class ServerBackend:
    """A server, as the token's user."""

    def __init__(self, client: Client, *, option: str, signed_in: bool) -> None:
        self._signed_in = signed_in
        self._api = Api(client, on_retry=lambda text: typer.echo(plain(text), err=True))
        self.option = option

    @property
    def server(self) -> str | None:
        """Return the server's address."""
        return self._api.server

    @property
    def signed_in(self) -> bool:
        """Return whether there is a token."""
        return self._signed_in

    @property
    def config(self) -> Config:
        """Raise ``AssertionError``: a server keeps its configuration to itself."""
        raise AssertionError("a server's configuration was asked for")

    def call(self, call: Callable[..., T], *, as_user: str | None = None, **values: Any) -> T:
        """Run an operation at the server, as the token's user."""
        refuse_user(as_user)
        return self._api.call(call, **values)

    def ask(self, here: Callable[[Database], T], there: Callable[[Api], T]) -> T:  # noqa: ARG002 - the port's
        """Return the server's answer."""
        return there(self._api)

    def check_judges(self) -> None:
        """Do nothing: this machine does not judge."""

    def submit(self, ask: Ask) -> SubmissionInfo:
        """Submit exactly once, even if the request is sent again."""
        from kernelcup.app.submissions.submit import read_tree

        refuse_user(ask.user)
        return self._api.submit(
            code=read_tree(ask.file_name, ask.content),
            mode=ask.mode,
            key=uuid.uuid4().hex if ask.key is None else ask.key,
            board=ask.board,
            devices=ask.devices,
            profile=None if ask.profile is None else asked(ask.profile),
        )

    def judge(self, submission: SubmissionInfo, *, quiet: bool) -> None:
        """Follow a new submission; an interruption does not cancel it."""
        self.watch(submission.id, quiet=quiet)

    def watch(self, submission_id: int, *, quiet: bool) -> None:
        """Follow a submission until it has ended."""
        try:
            # The events alone would not show at once what the submission waits for.
            submission = self._api.submission(submission_id)
            if not submission.ended:
                self._follow(submission, quiet=quiet)
        except (KeyboardInterrupt, SystemExit, ServerUnavailable) as error:
            error.add_note(
                f"kernelcup watch {submission_id}{self.option}   (submission {submission_id} stays on the "
                f"server; kernelcup cancel {submission_id}{self.option} withdraws it)"
            )
            raise

    def _follow(self, submission: SubmissionInfo, *, quiet: bool) -> None:
        from kernelcup.cli.compete.follow import Follower

        with (
            Follower(submission, quiet=quiet) as follower,
            closing(self._api.follow(submission.id)) as events,
        ):
            for event in events:
                follower.take(event)

    def submission(self, submission_id: int) -> SubmissionInfo:
        """Return a submission with its reports."""
        return self._api.submission(submission_id)

    def screening(self, submission_id: int) -> None:
        """Return None: the server does not reveal the screening."""

    def boards(self) -> list[BoardInfo]:
        """Return the leaderboards that the user may see."""
        return self._api.boards()

    def board(self, name: str) -> BoardInfo:
        """Return a leaderboard. Raise ``NotFound`` with what to do next."""
        with wiring.pointing_to(f"kernelcup board list{self.option}", NotFound):
            return self._api.board(name)

    def whole_task(self, board: str) -> Task:
        """Return a leaderboard's task without its hidden cases."""
        return self._api.whole_task(board)


def asked(options: ProfileOptions) -> dict[str, Any]:
    """Return what to profile as the server reads it."""
    return {name: value for name, value in to_json(options).items() if name != "way"}
