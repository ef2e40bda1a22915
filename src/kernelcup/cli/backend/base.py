"""Where a command works, this machine's database or a server, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kernelcup.domain import Task
from kernelcup.errors import InvalidValue
from kernelcup_harness.protocol import Mode, ProfileOptions

if TYPE_CHECKING:
    from kernelcup.client.api import Api
    from kernelcup.client.models import BoardInfo
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database
    from kernelcup.reporting.results import SubmissionInfo
    from kernelcup.screen.findings import Screening

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """A submission to make."""

    file_name: str
    content: bytes
    mode: Mode
    board: str | None
    devices: tuple[str, ...]
    user: str | None
    profile: ProfileOptions | None = None
    """What to profile."""
    key: str | None = None
    """The idempotency key; None for one of its own."""


class Backend(Protocol):
    """The operations that commands need."""

    @property
    def server(self) -> str | None:
        """Return the server's address, None for this machine's database."""

    @property
    def signed_in(self) -> bool:
        """Return whether commands act as a user of the server; true without a server."""

    @property
    def option(self) -> str:
        """Return the option that a proposed command needs to work here: empty, or `` --server URL``."""

    @property
    def config(self) -> Config:
        """Return this machine's configuration. Only where :attr:`server` is None."""

    def call(self, call: Callable[..., T], *, as_user: str | None = None, **values: Any) -> T:
        """Run an operation with values for its parameters, as the user of that name, or for that user."""

    def ask(self, here: Callable[[Database], T], there: Callable[[Api], T]) -> T:
        """Return the answer of a service or of the server, where one call is enough for a command."""

    def check_judges(self) -> None:
        """Raise ``ConfigError`` if this machine is to judge submissions and cannot."""

    def submit(self, ask: Ask) -> SubmissionInfo:
        """Submit."""

    def judge(self, submission: SubmissionInfo, *, quiet: bool) -> None:
        """Wait until a new submission has ended, and show its progress."""

    def watch(self, submission_id: int, *, quiet: bool) -> None:
        """Wait until a submission has ended, and show its progress."""

    def submission(self, submission_id: int) -> SubmissionInfo:
        """Return a submission with its reports."""

    def screening(self, submission_id: int) -> Screening | None:
        """Return a second opinion's findings. Only where :attr:`server` is None."""

    def boards(self) -> list[BoardInfo]:
        """Return all leaderboards."""

    def board(self, name: str) -> BoardInfo:
        """Return a leaderboard. Raise ``NotFound`` with what to do next."""

    def whole_task(self, board: str) -> Task:
        """Return a leaderboard's task without its hidden cases, to be run here or written to a folder."""


def refuse_user(user: str | None) -> None:
    """Raise ``InvalidValue`` for a user name: a server identifies the user by the token."""
    if user is not None:
        raise InvalidValue(
            "--user: the server knows you by your token; it is for this machine's database (--local)"
        )
