"""How people give the settings of an event: in requests, as options of commands, in forms of pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from kernelcup.app.boards.deadlines import parse_end, parse_opening
from kernelcup.app.operation import Given, Parameter
from kernelcup.domain.events import EVENT_SETTING_TYPES, EventSettings
from kernelcup.errors import InvalidValue

LONGEST_TEXT = 50_000
MOST_FIELDS, MOST_PLACES, LARGEST_TEAM = 20, 100, 50
MOST_POINTS = 1_000_000


class EventChanges(dict[str, Any]):
    """New values of settings by name; None removes an optional one. Raise ``TypeError`` for an unknown name."""

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - set(EVENT_SETTING_TYPES):
            raise TypeError(f"no settings: {', '.join(sorted(unknown))}")
        super().__init__(values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A question at registration."""

    name: str
    required: bool
    choices: tuple[str, ...]
    """The possible answers; empty for a text."""


def _end(option: str, what: str) -> Given:
    return Given(options=(option,), parse=lambda text, _: parse_end(text), help=what)


GIVEN: Mapping[str, Given] = {
    "title": Given(options=("--title",), longest=200, help="The heading of its page; default: its name."),
    "text": Given(
        options=("--text",),
        longest=LONGEST_TEXT,
        help="Its page, in Markdown with mathematics.",
    ),
    "opens_at": Given(
        options=("--opens",), parse=lambda text, _: parse_opening(text), help="When it begins."
    ),
    "qualifier_at": _end("--qualifier", "When its qualifier ends."),
    "ends_at": _end("--ends", "When it ends."),
    "registration": Given(
        options=("--registration/--no-registration",),
        help="Only who has registered may submit to its leaderboards.",
    ),
    "register_by": _end("--register-by", "Until when people may register."),
    "terms": Given(options=("--terms",), longest=LONGEST_TEXT, help="What participants accept, in Markdown."),
    "licence": Given(
        options=("--licence",),
        longest=200,
        help="The licence under which participants submit their code, for example MIT.",
    ),
    "fields": Given(
        options=("--field",),
        longest=500,
        most=MOST_FIELDS,
        help='A question at registration, may be repeated: "Affiliation", "Age?" if it needs no answer, '
        '"Status=student|other" for a choice.',
    ),
    "team_size": Given(
        options=("--team-size",), least=1, most=LARGEST_TEAM, help="Most members of a team; 1: no teams."
    ),
    "teams_until": _end("--teams-until", "From then on teams stay as they are."),
    "points_by": Given(
        options=("--points-by",),
        help="What gives points: place, leader (the best time over one's own), floor (the speed of light over "
        "one's own) or baseline (its time over one's own).",
    ),
    "place_points": Given(
        options=("--place-points",), longest=1000, help='The points of the places, "25,18,15".'
    ),
    "full_points": Given(options=("--full-points",), help="The points of a ratio of 1."),
    "ties": Given(
        options=("--ties",), help="Equal sums share a place (shared), or the better places decide (places)."
    ),
    "prizes": Given(
        options=("--prize",),
        longest=500,
        most=MOST_PLACES,
        help="The prize of the first place, may be repeated for the next ones.",
    ),
}
SETTINGS = tuple(
    Parameter(
        name=name,
        kind=EVENT_SETTING_TYPES[name],
        given=given,
        default=getattr(EventSettings(), name),
        in_path="",
    )
    for name, given in GIVEN.items()
)
Changes = Annotated[EventChanges | None, Given(parts=SETTINGS, help="Settings.")]


def check_settings(settings: EventSettings) -> None:
    """Raise ``InvalidValue`` if settings are invalid or contradict each other."""
    moments = [each for each in (settings.opens_at, settings.qualifier_at, settings.ends_at) if each]
    if moments != sorted(moments):
        raise InvalidValue("Expected the opening before the end of the qualifier, and that before the end.")
    if not 1 <= settings.team_size <= LARGEST_TEAM:
        raise InvalidValue(f"team_size {settings.team_size}: expected 1 to {LARGEST_TEAM}.")
    if not 0 < settings.full_points <= MOST_POINTS:
        raise InvalidValue(
            f"full_points {settings.full_points:g}: expected more than 0, at most {MOST_POINTS:,}."
        )
    names = [parse_field(each).name.lower() for each in settings.fields]
    if len(set(names)) < len(names) or len(names) > MOST_FIELDS:
        raise InvalidValue(f"Questions at registration: expected at most {MOST_FIELDS}, each name once.")
    if len(settings.prizes) > MOST_PLACES:
        raise InvalidValue(f"Prizes: expected at most {MOST_PLACES}.")
    points_of_places(settings.place_points)


def parse_field(text: str) -> Field:
    """Return a question from ``NAME``, ``NAME?`` or ``NAME=CHOICE|CHOICE``. Raise ``InvalidValue``."""
    name, _, rest = text.partition("=")
    required, name = not name.strip().endswith("?"), name.strip().rstrip("?").strip()
    choices = tuple(each.strip() for each in rest.split("|") if each.strip())
    if not 1 <= len(name) <= 100 or not name.isprintable() or ("=" in text and len(choices) < 2):
        raise InvalidValue(
            f"Question {text!r}: expected a name of at most 100 characters, `NAME?` if it needs no answer, or "
            "`NAME=CHOICE|CHOICE` with two choices or more."
        )
    return Field(name=name, required=required, choices=choices)


def points_of_places(text: str) -> tuple[float, ...]:
    """Return the points of the places from ``25,18,15``. Raise ``InvalidValue`` unless they never rise."""
    try:
        points = tuple(float(each) for each in text.split(","))
    except ValueError:
        points = ()
    fits = all(math.isfinite(each) and 0 <= each <= MOST_POINTS for each in points)
    if not 1 <= len(points) <= MOST_PLACES or not fits or list(points) != sorted(points, reverse=True):
        raise InvalidValue(
            f"Points of the places {text!r}: expected at most {MOST_PLACES} numbers from 0 on, separated by "
            "commas, none larger than the one before."
        )
    return points


def texts_of(values: Sequence[str] | None) -> tuple[str, ...]:
    """Return the texts of a list without empty ones."""
    return tuple(each.strip() for each in values or () if each.strip())
