"""What an import brought: numbers for its later steps, and words for the operator."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelcup.domain import Device, Leaderboard

BROUGHT = (
    *("users", "client_secrets", "leaderboards", "limits", "invites", "members", "submissions"),
    "results",
)
FURTHER = {
    "guessed_discord": "users of discord, by the length of the id",
    "guessed_github": "users of github, by the length of the id",
    "guessed_kernelbot": "users without a way to sign in",
    "banned": "users banned",
    "unfinished": "unfinished registrations left out",
    "not_text": "codes that are no text: their bytes are in a second file, in base64",
    "rejected": "results do not rank there, and are rejected here with the reason",
    "revised": "results were expelled there since, or cleared",
    "ungraded": "submissions have no result",
    "waiting": "submissions are not done yet: the next import brings them",
    "deleted": "submissions were deleted here, and stay so",
}
MOST = 20
"""Lines of each kind; `--json` has all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A place that is not as it was."""

    leaderboard: str
    device: str
    user_id: int
    before: tuple[int, float] | None
    """Place and seconds; None for none."""
    after: tuple[int, float] | None
    in_views: bool = False
    """Whether `after` is over the views, else in the standings."""

    def __str__(self) -> str:
        was, now = (
            "none" if each is None else f"{each[0]} with {each[1]:.9g} s"
            for each in (self.before, self.after)
        )
        where = ", over the views" if self.in_views else ""
        return f"{self.leaderboard} on {self.device}, user {self.user_id}{where}: {was} -> {now}"


@dataclass(kw_only=True, slots=True)
class Imported:
    """What an import brought."""

    known: Sequence[Device]
    """The configured devices."""
    users: dict[str, int] = field(default_factory=dict)
    """The user's number here by the id there."""
    boards: dict[int, Leaderboard] = field(default_factory=dict)
    """The leaderboard here by its number there."""
    changed: set[str] = field(default_factory=set)
    """The leaderboards that got submissions."""
    absent: set[int] = field(default_factory=set)
    """Submissions that are not done there yet, or were deleted here."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of :data:`BROUGHT` and :data:`FURTHER`."""
    notes: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What an operator has to know, by kind."""
    places: int = 0
    """In KernelBot's rankings; 0 in a dry run."""
    has_views: bool = False
    """Whether the places over the views were compared too, as PostgreSQL allows."""
    differences: list[Difference] = field(default_factory=list)

    _spelled: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._spelled = {device.name.lower(): device.name for device in self.known}

    def device(self, name: str) -> str:
        """Return a device as it is spelled here."""
        return self._spelled.get(name.lower(), name)

    def has(self, device: str) -> bool:
        """Return whether a device is configured."""
        return device.lower() in self._spelled

    def lines(self, *, dry_run: bool) -> Iterator[str]:
        """Yield what was brought, then what an operator has to know."""
        brought = (f"{self.counts[name]:,} {name.replace('_', ' ')}" for name in BROUGHT)
        yield f"{'would be imported' if dry_run else 'imported'}: {', '.join(brought)}"
        if not dry_run:
            told = [f"places as before: {self._same(in_views=False):,} of {self.places:,}"]
            if self.has_views:
                told.append(f"over the views {self._same(in_views=True):,} of {self.places:,}")
            yield ", ".join(told)
        yield from (f"{self.counts[name]:,} {text}" for name, text in FURTHER.items() if self.counts[name])
        notes = {**self.notes, "place differs": list(map(str, self.differences))}
        for what, items in notes.items():
            yield from (f"{what}: {item}" for item in items[:MOST])
            if len(items) > MOST:
                yield f"{what}: {len(items) - MOST:,} more (--json names all)"

    def _same(self, *, in_views: bool) -> int:
        other = (each for each in self.differences if each.in_views is in_views)
        return self.places - sum(each.before is not None for each in other)

    def as_object(self) -> dict[str, Any]:
        """Return the same as JSON."""
        counts = {name: self.counts[name] for name in (*BROUGHT, *FURTHER)}
        differences = [dataclasses.asdict(each) for each in self.differences]
        return {**counts, "notes": self.notes, "places": self.places, "differences": differences}
