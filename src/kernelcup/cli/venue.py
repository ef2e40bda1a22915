"""Where a command works: with this machine's database or with a server. The command does not care."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import typer

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from kernelcup.client_forms import BoardInfo, SubmissionInfo, TaskInfo
    from kernelcup.domain import Standing, Task
    from kernelcup.screen import Screening
    from kernelcup.services.board_changes import UpdatePreview
    from kernelcup_harness.protocol import Mode

LOCAL_NAMES = ("KERNELCUP_HOME", "KERNELCUP_CONFIG", "KERNELCUP_DATABASE")
"""Who sets one of these means a database of this machine, although they signed in somewhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What is to be submitted."""

    file_name: str
    content: bytes
    mode: Mode
    board: str | None
    devices: tuple[str, ...]
    user: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """What of a leaderboard is to change."""

    board: str
    task: str | None
    """As it was typed: folder, zip, file or name; None keeps the one that is there."""
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """What an update did."""

    board: str
    rejudged_jobs: int | None
    """None where nothing is judged again."""


class Venue(Protocol):
    """What commands need done."""

    @property
    def server(self) -> str | None:
        """Return the server's address, None for this machine's database."""

    @property
    def option(self) -> str:
        """Return what a command that is proposed needs, to work here: empty, or `` --server URL``."""

    def check_judges(self) -> None:
        """Raise ``ConfigError`` if what is submitted now could not be judged here."""

    def submit(self, ask: Ask) -> SubmissionInfo:
        """Submit."""

    def judge(self, submission: SubmissionInfo, *, quiet: bool) -> None:
        """Wait until a submission that was just made has ended, and show how far it is."""

    def watch(self, submission_id: int, *, quiet: bool) -> None:
        """Wait until a submission has ended, and show how far it is."""

    def submission(self, submission_id: int) -> SubmissionInfo:
        """Return a submission with its reports."""

    def submissions(
        self, *, user: str | None, board: str | None, tag: str | None, limit: int
    ) -> list[SubmissionInfo]:
        """Return the newest submissions."""

    def screening(self, submission_id: int) -> Screening | None:
        """Return what the static screen found. Only where :attr:`server` is None."""

    def code(self, submission_id: int) -> str:
        """Return a submission's text."""

    def cancel(self, submission_id: int, *, user: str | None) -> int:
        """Cancel what is left of a submission, and return how many jobs that were."""

    def delete_submission(self, submission_id: int, *, user: str | None) -> None:
        """Delete a submission for good."""

    def place(self, board: str, device: str, user: str) -> Standing | None:
        """Return somebody's place, None if they have none or it is not told."""

    def standings(self, board: str, device: str, *, limit: int) -> list[Standing]:
        """Return a ranking."""

    def older_standings(self, board: str, device: str) -> list[Standing]:
        """Return what was measured by an older clock and stands apart, a hundred at most."""

    def frozen_since(self, board: str, device: str) -> datetime | None:
        """Return of which moment the standings are that one sees, None where they are live."""

    def boards(self) -> list[BoardInfo]:
        """Return all leaderboards."""

    def board(self, name: str) -> BoardInfo:
        """Return a leaderboard."""

    def task(self, board: str) -> TaskInfo:
        """Return a leaderboard's task."""

    def whole_task(self, board: str) -> Task:
        """Return a leaderboard's task without its hidden cases, to be run or written down here."""

    def task_object(self, board: str) -> Mapping[str, object]:
        """Return a leaderboard's task as ``--json`` prints it."""

    def create_board(
        self,
        task: str,
        *,
        name: str | None,
        devices: Sequence[str],
        settings: Mapping[str, Any],
        user: str | None,
    ) -> tuple[BoardInfo, Sequence[str]]:
        """Make a leaderboard; return it, and how it is judged and why so. Raise ``OwnHarnessNeeded``."""

    def preview(self, update: Update) -> UpdatePreview:
        """Return what an update would change."""

    def update(self, update: Update, seen: UpdatePreview, *, rejudge: bool, force: bool) -> Changed:
        """Change a leaderboard as the preview said."""

    def delete_board(self, name: str) -> None:
        """Delete a leaderboard for good."""


@contextmanager
def open_venue(server: str | None, local: bool, config: Path | None) -> Iterator[Venue]:
    """Open where a command works, by its options and the environment; a server is named on stderr.

    Raises:
        InvalidValue: The options contradict each other.
        ConfigError, StorageUnavailable: The local database cannot be used.
    """
    from kernelcup.cli import platform
    from kernelcup.errors import SignInNeeded

    address = choose(server, local=local, config=config)
    if address is None:
        from kernelcup.cli.venue_local import LocalVenue

        if not local and config is None:
            say_overridden()
        settings = platform.load_config(config)
        with platform.open_database(settings) as db:
            yield LocalVenue(settings, db)
        return
    from kernelcup.cli.credentials import Credentials
    from kernelcup.cli.remote import RemoteVenue
    from kernelcup.client import Client

    typer.echo(f"server: {address}", err=True)
    token = Credentials.load(os.environ).tokens.get(address)
    option = f" --server {address}" if server is not None else ""
    with (
        platform.pointing_to(f"kernelcup login {address}", SignInNeeded),
        Client(address, token) as client,
    ):
        yield RemoteVenue(client, option=option)


def overriding() -> str | None:
    """Return the variable for which commands use this machine's database, although one is signed in."""
    return next((name for name in LOCAL_NAMES if os.environ.get(name)), None)


def say_overridden() -> None:
    """Say on stderr that the server that one is signed in to is not asked, and why."""
    from kernelcup.cli.credentials import Credentials

    name, server = overriding(), Credentials.load(os.environ).default
    if name is not None and server is not None:
        typer.echo(
            f"this machine's database, because {name} is set; you are signed in to {server}: "
            f"--server {server} asks it",
            err=True,
        )


def choose(server: str | None, *, local: bool, config: Path | None) -> str | None:
    """Return the address of the server that is meant, None for this machine's database."""
    from kernelcup.cli.credentials import Credentials
    from kernelcup.client import read_server
    from kernelcup.errors import InvalidValue

    if server is not None and (local or config is not None):
        raise InvalidValue(f"--server and {'--local' if local else '--config'} contradict each other")
    if local:
        return None
    if named := server or os.environ.get("KERNELCUP_SERVER"):
        return read_server(named)
    if config is not None or any(os.environ.get(name) for name in LOCAL_NAMES):
        return None
    return Credentials.load(os.environ).default
