"""Options for a leaderboard's settings, and how their values are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.domain import CodePolicy, TrustRule
from kernelcup.errors import InvalidValue

if TYPE_CHECKING:
    from datetime import datetime

NONE = "none"

DeadlineOption = Annotated[
    str | None,
    typer.Option(help='"2026-12-20", "2026-12-20 23:59", with a zone "... Europe/Paris"; else UTC.'),
]
OpensOption = Annotated[str | None, typer.Option(help="Opening time, in the same forms.")]
FreezeOption = Annotated[
    str | None, typer.Option(help="From this time on, others see the standings as of this time.")
]
DeviceOption = Annotated[list[str] | None, typer.Option("--device", "-d", help="May be repeated.")]
ClosedOption = Annotated[
    bool | None,
    typer.Option("--closed/--public", help="Whether only members and managers see the leaderboard."),
]
PseudonymousOption = Annotated[
    bool | None,
    typer.Option(
        "--pseudonymous/--no-pseudonymous", help="Whether members see only each other's pseudonyms."
    ),
]
CodeOption = Annotated[
    str | None, typer.Option("--code", help="When others see submissions: never or after_deadline.")
]
SizeOption = Annotated[
    str | None,
    typer.Option(
        "--max-file-bytes", metavar="BYTES", help="The leaderboard's own size limit for submissions."
    ),
]
ReviewTagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--review-tag", help="A static-screen tag that sends ranked results to review; may be repeated."
    ),
]
TrustOption = Annotated[
    str | None,
    typer.Option("--trust", help="Which times rank: any (each marked), replayed or witnessed (only these)."),
]
DuelOption = Annotated[
    bool | None,
    typer.Option("--duel/--no-duel", help="Whether a new first place must win a duel against the old one."),
]

EventOption = Annotated[
    str | None, typer.Option("--event", metavar="NAME", help="The event that the leaderboard belongs to.")
]


def read(
    now: datetime,
    *,
    deadline: str | None,
    opens: str | None,
    freeze: str | None,
    closed: bool | None,
    pseudonymous: bool | None,
    code: str | None,
    max_file_bytes: str | None,
    review_tags: list[str] | None,
    trust: str | None = None,
    duel: bool | None = None,
    event: str | None = None,
) -> dict[str, Any]:
    """Return the settings that were given; the word none becomes None. Raise ``InvalidValue``."""
    from kernelcup.domain import Visibility
    from kernelcup.services.boards.deadlines import parse_deadline, parse_opening

    found: dict[str, Any] = {}
    if deadline is not None:
        found["deadline"] = None if deadline == NONE else parse_deadline(deadline, now)
    if opens is not None:
        found["opens_at"] = None if opens == NONE else parse_opening(opens)
    if freeze is not None:
        found["freeze_at"] = None if freeze == NONE else parse_opening(freeze)
    if closed is not None:
        found["visibility"] = Visibility.CLOSED if closed else Visibility.PUBLIC
    if pseudonymous is not None:
        found["pseudonymous"] = pseudonymous
    if code is not None:
        found["code_policy"] = read_code_policy(code)
    if max_file_bytes is not None:
        found["max_file_bytes"] = None if max_file_bytes == NONE else read_bytes(max_file_bytes)
    if review_tags:
        found["review_tags"] = [] if review_tags == [NONE] else review_tags
    if event is not None:
        found["event"] = "" if event == NONE else event
    proofs = {"trust": None if trust is None else read_trust(trust), "duel": duel}
    return found | {name: value for name, value in proofs.items() if value is not None}


def read_trust(text: str) -> TrustRule:
    """Return which times rank. Raise ``InvalidValue``."""
    try:
        return TrustRule(text.lower())
    except ValueError:
        raise InvalidValue(f"--trust {text}: expected any, replayed or witnessed") from None


def read_code_policy(text: str) -> CodePolicy:
    """Return the code visibility with that name. Raise ``InvalidValue``."""
    try:
        return CodePolicy(text.lower().replace("-", "_"))
    except ValueError:
        raise InvalidValue(f"--code {text}: expected never or after_deadline") from None


def read_bytes(text: str) -> int:
    """Return a number of bytes. Raise ``InvalidValue``."""
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise InvalidValue(f"--max-file-bytes {text}: expected a number, or none")
    return int(text)
