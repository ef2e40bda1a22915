"""Events: leaderboards that belong together, with registration, teams and a table of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, get_type_hints

from kernelcup.domain.competition import BoardSettings, Visibility
from kernelcup.domain.people import Named


class PointsBy(StrEnum):
    """What gives points on a leaderboard."""

    PLACE = "place"
    LEADER = "leader"
    """The best time as a share of one's own."""
    FLOOR = "floor"
    """The least time that the declared work takes on the device as a share of one's own, the geometric mean over the
    cases."""
    BASELINE = "baseline"
    """The baseline's or the reference's time as a multiple of one's own, the geometric mean over the cases."""


class Ties(StrEnum):
    """What decides between equal sums of points."""

    SHARED = "shared"
    """Nothing: they share the place."""
    PLACES = "places"
    """The better places on the leaderboards: more first ones, then more second ones, and so on."""


class Remark(StrEnum):
    """The kind of something that was said in an event."""

    ANNOUNCEMENT = "announcement"
    QUESTION = "question"
    ANSWER = "answer"


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSettings:
    """Choices of an event's organiser."""

    title: str = ""
    text: str = ""
    """Markdown."""
    opens_at: datetime | None = None
    qualifier_at: datetime | None = None
    """When the qualifier ends."""
    ends_at: datetime | None = None
    registration: bool = False
    """Whether only who has registered may submit to its leaderboards."""
    register_by: datetime | None = None
    terms: str = ""
    """What participants accept, as Markdown."""
    licence: str = ""
    """The licence under which participants submit their code."""
    fields: Sequence[str] = ()
    """Questions at registration: see :func:`kernelcup.app.events.fields.parse_field`."""
    team_size: int = 1
    """The most members of a team; 1 for an event without teams."""
    teams_until: datetime | None = None
    """From then on teams stay as they are."""
    points_by: PointsBy = PointsBy.PLACE
    place_points: str = "25,18,15,12,10,8,6,4,2,1"
    """The points of the first places."""
    full_points: float = 100.0
    """The points of a ratio of 1."""
    ties: Ties = Ties.SHARED
    prizes: Sequence[str] = ()
    """The prize of each place, the first place first."""

    @property
    def has_teams(self) -> bool:
        """Whether people may compete together."""
        return self.team_size > 1

    def dates_of(
        self, board: BoardSettings, course_id: int | None
    ) -> tuple[datetime | None, datetime | None]:
        """Return when a leaderboard with these settings of its own opens and closes as part of the event.

        The later opening and the earlier end hold. The end is that of the qualifier, but for a final: a leaderboard
        that has or had members of its own, or that opens when the qualifier has ended.
        """
        opens_at = max(filter(None, (board.opens_at, self.opens_at)), default=None)
        is_final = board.visibility is Visibility.CLOSED or course_id is not None
        if self.qualifier_at is None or is_final or (opens_at is not None and opens_at >= self.qualifier_at):
            return opens_at, earliest(board.deadline, self.ends_at)
        return opens_at, earliest(board.deadline, self.qualifier_at)


def earliest(*moments: datetime | None) -> datetime | None:
    """Return the first of some moments, None without any."""
    return min(filter(None, moments), default=None)


EVENT_SETTING_TYPES: Mapping[str, Any] = get_type_hints(EventSettings)
"""The type of each setting, by its name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event(EventSettings):
    """Leaderboards that belong together, for example those of a hackathon."""

    id: int
    name: str
    creator: str
    creator_id: int
    created_at: datetime

    @property
    def shown_title(self) -> str:
        """The title for people."""
        return self.title or self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered(Named):
    """A user who takes part in an event."""

    user: str
    shown_name: str = ""
    accepted_at: datetime
    """When they agreed to the terms and the licence."""
    answers: Mapping[str, str]
    """To the questions at registration, by name."""
    team: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """A team of an event."""

    name: str
    captain: str
    members: Sequence[str]
    """The names of its users, the captain's too."""
    code: str = ""
    """Who knows it may join; only members see it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said(Named):
    """An announcement, a question, or an answer."""

    id: int
    kind: Remark
    at: datetime
    user: str
    """Its author."""
    shown_name: str = ""
    text: str
    answer_to: int | None
    """The number of the question."""
    private: bool
    """Whether only the organiser and one participant see it."""
