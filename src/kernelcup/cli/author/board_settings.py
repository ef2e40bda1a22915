"""Options for a leaderboard's settings, and how their values are read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, get_type_hints

import typer

from kernelcup.domain import CodePolicy, TrustRule, Visibility
from kernelcup.errors import InvalidValue

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
    str | None,
    typer.Option(
        "--code",
        help="When others see the code of ranked results: after_deadline (also of a new leaderboard) or never.",
    ),
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
        "--review-tag", help="A tag of a second opinion that sends ranked results to review; may be repeated."
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
CpuTimesOption = Annotated[
    bool | None, typer.Option("--cpu-times/--no-cpu-times", help="Whether times without a GPU rank.")
]

EventOption = Annotated[
    str | None, typer.Option("--event", metavar="NAME", help="The event that the leaderboard belongs to.")
]


ShareOption = Annotated[
    float | None,
    typer.Option(
        "--share", metavar="WEIGHT", help="Its weight among leaderboards that want the same GPUs; for admins."
    ),
]


def _deadline(text: str) -> datetime | None:
    from kernelcup.app.boards.deadlines import parse_deadline

    return None if text == NONE else parse_deadline(text, datetime.now(UTC))


def _moment(text: str) -> datetime | None:
    from kernelcup.app.boards.deadlines import parse_opening

    return None if text == NONE else parse_opening(text)


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


def read_bytes(text: str) -> int | None:
    """Return a number of bytes, None for ``none``. Raise ``InvalidValue``."""
    if text == NONE:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise InvalidValue(f"--max-file-bytes {text}: expected a number, or none")
    return int(text)


OPTIONS: Mapping[str, tuple[Any, str, Callable[[Any], object]]] = {
    "deadline": (DeadlineOption, "deadline", _deadline),
    "opens": (OpensOption, "opens_at", _moment),
    "freeze": (FreezeOption, "freeze_at", _moment),
    "closed": (ClosedOption, "visibility", lambda closed: Visibility.CLOSED if closed else Visibility.PUBLIC),
    "pseudonymous": (PseudonymousOption, "pseudonymous", bool),
    "code": (CodeOption, "code_policy", read_code_policy),
    "max_file_bytes": (SizeOption, "max_file_bytes", read_bytes),
    "review_tag": (ReviewTagOption, "review_tags", lambda tags: [] if tags == [NONE] else tags),
    "trust": (TrustOption, "trust", read_trust),
    "duel": (DuelOption, "duel", bool),
    "cpu_times": (CpuTimesOption, "cpu_times", bool),
    "share": (ShareOption, "share", float),
    "event": (EventOption, "event", lambda name: "" if name == NONE else name),
}
"""The options of a command, each with its setting and the function that reads its value."""

_PARAMETERS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
    for name, (option, _, _) in OPTIONS.items()
]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :data:`OPTIONS`; it gets those that were set as ``given``, by setting."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        given = {}
        for name, (_, setting, read) in OPTIONS.items():
            if (value := options.pop(name)) not in (None, []):
                given[setting] = read(value)
        command(*args, **options, given=given)

    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command).parameters.values():
        own = [each.replace(annotation=hints[each.name])]
        parameters += _PARAMETERS if each.name == "given" else own
    # Typer reads the options of a command from its signature.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
