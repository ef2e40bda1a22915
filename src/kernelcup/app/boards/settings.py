"""How people give the settings of a leaderboard: in requests, as options of commands, in forms of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

from kernelcup.app.boards.deadlines import parse_end, parse_opening
from kernelcup.app.operation import Given, Parameter
from kernelcup.domain import SETTING_TYPES, BoardSettings
from kernelcup_harness.protocol import HarnessKind


class Keep(Enum):
    """Marks a setting that stays as it is; None would remove it."""

    KEEP = "keep"


KEEP = Keep.KEEP

TYPES: Mapping[str, Any] = {"devices": Sequence[str], "harness": HarnessKind, **SETTING_TYPES}
"""What can be changed beside the task."""


class BoardChanges(dict[str, Any]):
    """New values of settings by name; None removes an optional one. Raise ``TypeError`` for an unknown name."""

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - set(TYPES):
            raise TypeError(f"no settings: {', '.join(sorted(unknown))}")
        super().__init__({name: value for name, value in values.items() if value is not KEEP})


GIVEN: Mapping[str, Given] = {
    "devices": Given(longest=100, most=50, help="The devices that it takes."),
    "harness": Given(help="The harness that judges."),
    "deadline": Given(
        options=("--deadline",),
        parse=lambda text, _: parse_end(text),
        help='"2026-12-20", "2026-12-20 23:59", with a zone "... Europe/Paris" or "... AoE"; else UTC.',
    ),
    "opens_at": Given(
        options=("--opens",),
        parse=lambda text, _: parse_opening(text),
        help="Opening time, in the same forms.",
    ),
    "freeze_at": Given(
        options=("--freeze",),
        parse=lambda text, _: parse_opening(text),
        help="From this time on, others see the standings as of this time.",
    ),
    "after_deadline": Given(
        options=("--after-deadline",),
        help="After the deadline: closed, unranked (tests, benchmarks, profiles) or practice (ranked apart, too).",
    ),
    "visibility": Given(
        options=("--members-only/--public",), help="Whether only members and managers see the leaderboard."
    ),
    "pseudonymous": Given(
        options=("--pseudonymous/--no-pseudonymous",),
        help="Whether members see only each other's pseudonyms.",
    ),
    "code_policy": Given(
        options=("--code",),
        help="When others see the code of ranked results: after_deadline (also of a new leaderboard) or never.",
    ),
    "max_file_bytes": Given(
        options=("--max-file-bytes",),
        metavar="BYTES",
        least=1,
        most=1_000_000,
        help="The leaderboard's own size limit for submissions.",
    ),
    "review_tags": Given(
        options=("--review-tag",),
        longest=64,
        most=100,
        help="A tag of a second opinion that sends ranked results to review; may be repeated.",
    ),
    "trust": Given(
        options=("--trust",),
        help="Which times rank: any (each marked), replayed or witnessed (only these).",
    ),
    "duel": Given(
        options=("--duel/--no-duel",),
        help="Whether a new first place must win a duel against the old one.",
    ),
    "cpu_times": Given(options=("--cpu-times/--no-cpu-times",), help="Whether times without a GPU rank."),
    "provider_isolation": Given(
        options=("--provider-isolation/--no-provider-isolation",),
        help="Whether a provider that isolates each job itself, as Modal does, may judge ranked submissions.",
    ),
    "share": Given(
        options=("--share",),
        metavar="WEIGHT",
        help="Its weight among leaderboards that want the same GPUs; for admins.",
    ),
    "event": Given(
        options=("--event",),
        metavar="NAME",
        longest=100,
        help="The event that the leaderboard belongs to; one of this name is made if there is none.",
    ),
    "event_weight": Given(
        options=("--weight",), metavar="WEIGHT", help="The weight of its points in the event's table."
    ),
}

SETTINGS = tuple(
    Parameter(
        name=name, kind=TYPES[name], given=given, default=getattr(BoardSettings(), name, None), in_path=""
    )
    for name, given in GIVEN.items()
)
"""The settings, in the order of their options; a command has its own options for devices and harness."""

Changes = Annotated[BoardChanges | None, Given(parts=SETTINGS, help="Settings.")]
