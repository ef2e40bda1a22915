"""What an import says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from kernelcup_kernelbot.importing.run import Imported

MOST = 20
"""Lines of each kind; `--json` has all."""


def lines(found: Imported, *, dry_run: bool) -> Iterator[str]:
    """Yield what was brought, then what an operator has to know."""
    users, boards, rules, sent = found.people, found.boards, found.rules, found.submissions
    verb = "would be imported" if dry_run else "imported"
    yield (
        f"{verb}: {users.made:,} users, {users.tokens:,} secrets of clients, {len(boards.made):,} leaderboards, "
        f"{rules.limits:,} limits, {rules.invites:,} invites, {rules.members:,} members, "
        f"{sent.made:,} submissions" + ("" if dry_run else f" with {sent.runs:,} results")
    )
    guessed = ", ".join(f"{count:,} of {name}" for name, count in sorted(users.guessed.items()))
    if guessed:
        yield f"sign-in providers by the length of the id: {guessed}"
    yield from _some("shown name -> account", [f"{shown!r} -> {name}" for shown, name in users.renamed])
    yield from _some("leaderboard renamed", [f"{old!r} -> {name}" for old, name in boards.renamed])
    yield from _some("closed, its task cannot be judged here", map(": ".join, boards.unjudged.items()))
    unknown = (f"{device} of {', '.join(names)}" for device, names in boards.unknown_devices.items())
    yield from _some("device not configured", unknown)
    yield from _some("invite left out, equal to another one once it is typed", rules.alike)
    for count, text in (
        (users.banned, "users banned"),
        (users.left_out, "unfinished registrations left out"),
        (sent.not_text, "codes that are no text: their bytes are in a second file, in base64"),
        (sent.ungraded, "submissions have no result"),
        (len(sent.waiting), "submissions are not done yet: the next import brings them"),
        (len(sent.deleted), "submissions were deleted here, and stay so"),
    ):
        if count:
            yield f"{count:,} {text}"
    if not dry_run:
        same = found.compared - sum(each.before is not None for each in found.differences)
        yield f"places as before: {same:,} of {found.compared:,}"
    yield from _some("place differs", map(_difference, found.differences))


def as_object(found: Imported) -> dict[str, Any]:
    """Return the same as JSON."""
    users, sent = found.people, found.submissions
    return {
        "users": {name: getattr(users, name) for name in ("made", "banned", "tokens", "left_out")}
        | {"renamed": users.renamed, "guessed": dict(users.guessed)},
        "leaderboards": {
            name: getattr(found.boards, name) for name in ("made", "renamed", "unjudged", "unknown_devices")
        },
        "rules": dataclasses.asdict(found.rules),
        "submissions": {name: getattr(sent, name) for name in ("made", "runs", "not_text", "ungraded")}
        | {"waiting": len(sent.waiting), "deleted": len(sent.deleted)},
        "places": found.compared,
        "differences": list(map(dataclasses.asdict, found.differences)),
    }


def _some(what: str, items: Any) -> Iterator[str]:
    every = list(items)
    yield from (f"{what}: {item}" for item in every[:MOST])
    if len(every) > MOST:
        yield f"{what}: {len(every) - MOST:,} more (--json names all)"


def _difference(each: Any) -> str:
    was, now = (
        "none" if place is None else f"{place[0]} with {place[1]:.9g} s"
        for place in (each.before, each.after)
    )
    return f"{each.leaderboard} on {each.device}, user {each.user_id}: {was} -> {now}"
