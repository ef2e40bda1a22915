"""Leaderboards, rankings and their changes, as text for Discord."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import discord

from kernelcup.bot.messages import texts
from kernelcup.client.models import read, read_standing
from kernelcup.domain import BoardSettings, DuelOutcome, Standing, TrustRule
from kernelcup.reporting.finals import DELETED, OFFICIAL
from kernelcup.reporting.phrases import (
    after_rule,
    classes_text,
    code_rule,
    cpu_rule,
    level_mark,
    place_time,
    rank_text,
    ranking_levels,
    ranking_notes,
    score_interval,
    trust_text,
    waiting_text,
)

Json = Mapping[str, Any]

PAGE = 10
"""Number of places on a page of a ranking."""

ACCENT = 0x5865F2
LONGEST_DESCRIPTION = 1100
MOST_CHANGES = 5
MOST_LINES_ABOUT = 60
BEHIND = tuple(outcome.value for outcome in DuelOutcome if outcome.is_behind)
"""Outcomes of duels that put a result behind its rival."""


def stamp(moment: datetime | str, style: str = "f") -> str:
    """Return a moment that Discord shows in each reader's own time zone."""
    when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return f"<t:{int(when.timestamp())}:{style}>"


def deadline_text(board: Json) -> str:
    """Return when a leaderboard ends."""
    if board["deadline"] is None:
        return "no deadline"
    return f"{stamp(board['deadline'])} ({stamp(board['deadline'], 'R')})"


def devices_text(devices: Sequence[str]) -> str:
    """Return the devices of a leaderboard."""
    return _names(devices)


def ranking_embed(
    board: str,
    device: str,
    places: Sequence[Json],
    *,
    offset: int,
    link: str | None = None,
    frozen: str = "",
    unranked: Sequence[Json] = (),
    practice: Sequence[Json] = (),
    waiting: int = 0,
    final: Json | None = None,
) -> discord.Embed:
    """Return a page of a ranking, fastest first.

    Args:
        frozen: A note for frozen standings, else empty.
        unranked: Results of a level that the leaderboard does not rank.
        practice: Results from after the deadline.
        waiting: The number of users without a place until an earlier result is judged again.
        final: The final of a leaderboard whose deadline is over, with its official order.
    """
    page = offset // PAGE + 1
    shown = [read_standing(each) for each in places]
    embed = discord.Embed(
        title=texts.title(f"{board} on {device}", 256),
        description=_tables(shown) if shown else "No one is ranked here yet.",
        colour=ACCENT,
        url=link,
    )
    if final is not None:
        embed.add_field(name=OFFICIAL.capitalize(), value=_official(final), inline=False)
    if waiting:
        told = waiting_text(waiting)
        embed.add_field(name="Earlier results", value=texts.plain(told, 600), inline=False)
    levels = "This leaderboard does not rank times of these levels; the author's report says why."
    for title, apart, told in (("Practice", practice, AFTER), ("Not ranked", unranked, levels)):
        if apart:
            value = _apart([read_standing(each) for each in apart], told)
            embed.add_field(name=title, value=value, inline=False)
    if shown and shown[0].host_class:
        embed.add_field(
            name="Classes of machines", value=texts.plain(classes_text(device), 600), inline=False
        )
    notes = [frozen, f"Page {page}", "lower is better", *ranking_notes(shown), *_levels(shown)]
    embed.set_footer(text=" · ".join(note for note in notes if note))
    return embed


def first_message(board: Json, task: Json, changes: Sequence[str], *, link: str) -> str:
    """Return the first message of a leaderboard's thread.

    Args:
        board: The leaderboard, from the API.
        task: Its task.
        changes: Its changes as finished text, newest first.
        link: Its page.
    """
    parts = []
    if changes:
        parts.append("**Changes**\n" + texts.bullet_list(changes[:MOST_CHANGES]))
    parts.append(f"**Deadline** {deadline_text(board)}\n**GPUs** {devices_text(board['devices'])}")
    if description := description_text(task["description"]):
        parts.append(description)
    parts.append(code_rule(read(BoardSettings, board)))
    parts.append(f"Submit with {texts.code('/leaderboard submit ranked')}; details: <{link}>")
    return "\n\n".join(parts)


def description_text(text: str, limit: int = LONGEST_DESCRIPTION) -> str:
    """Return as much of a task's description as fits after escaping, which lengthens it."""
    text = texts.formulas(text)
    tries = (texts.plain_lines(text, limit // share) for share in (1, 2, 3))
    return next((found for found in tries if len(found) <= limit), "")


def template_file(board: Json, task: Json, text: str, language: str = "") -> texts.Attached:
    """Return a template as a file to start from, with the leaderboard's facts in comments.

    Args:
        board: The leaderboard.
        task: Its task.
        text: The template.
        language: Distinguishes it from the leaderboard's other templates, if several are sent.
    """
    is_c = task["lang"] == "cu" or "kc_args" in text
    own = str(task.get("submission_name", "")).rpartition(".")[2]
    ending = (own if own in ("cpp", "cuh") else "cu") if is_c else "py"
    comment = "//" if is_c else "#"
    about = texts.fenced(task["description"]).splitlines()[:MOST_LINES_ABOUT]
    about += ["", f"deadline: {board['deadline'] or 'none'}"]
    about += [f"GPUs: {', '.join(board['devices'])}; choose with a line {comment}!POPCORN gpus NAME"]
    first = f"{comment}!POPCORN leaderboard {texts.one_line(board['name'])}\n\n"
    header = first + "".join(f"{comment} {line}".rstrip() + "\n" for line in about)
    name = "-".join(each for each in (board["name"], language.lower().rstrip("+")) if each)
    return texts.Attached(texts.file_name(f"{name}.{ending}"), f"{header}\n{text}".encode())


def facts(board: Json) -> dict[str, Any]:
    """Return the facts of a leaderboard whose changes are announced."""
    return {name: board[name] for name in (*ANNOUNCED, "devices", "task_hash", "notice")}


def changes_between(before: Json, after: Json) -> list[str]:
    """Describe the changes from one state of a leaderboard to another."""
    found = [
        text(after[name]) for name, text in ANNOUNCED.items() if before.get(name, after[name]) != after[name]
    ]
    added = [each for each in after["devices"] if each not in before.get("devices", [])]
    removed = [each for each in before.get("devices", []) if each not in after["devices"]]
    if added:
        found.append(f"GPUs added: {_names(added)}")
    if removed:
        found.append(f"GPUs removed: {_names(removed)}")
    if before.get("task_hash") != after.get("task_hash"):
        found.append("the task changed; get the template and the task again")
    if notice := after["notice"].removeprefix(before.get("notice", "")).strip():
        found.append(texts.plain(notice, 400))
    return found


def _stamp_or_none(moment: str | None) -> str:
    return stamp(moment) if moment else "none"


AFTER = "Submitted after the deadline; they change nothing of the ranking."
ANNOUNCED: Mapping[str, Callable[[Any], str]] = {
    "deadline": lambda moment: f"deadline: {_stamp_or_none(moment)}",
    "opens_at": lambda moment: f"opening: {_stamp_or_none(moment)}",
    "freeze_at": lambda moment: f"freeze of the ranking: {_stamp_or_none(moment)}",
    "max_file_bytes": lambda size: f"largest submission: {f'{size:,} bytes' if size else 'the default'}",
    "after_deadline": lambda rule: after_rule(rule).rstrip("."),
    "trust": lambda rule: ranking_levels(TrustRule(rule)),
    "duel": lambda needed: f"a new first place {'must win a duel' if needed else 'needs no duel'}",
    "cpu_times": cpu_rule,
    "provider_isolation": lambda taken: (
        f"ranked runs isolated by a provider {'rank' if taken else 'are refused'}"
    ),
}
"""The settings whose changes are announced, and what is said of their new values."""


def _names(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(texts.code(name, 30) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _tables(places: Sequence[Standing]) -> str:
    """Return a table, or one for each class of machines under its name."""
    tables = []
    for host_class, part in groupby(places, key=lambda each: each.host_class):
        name = f"**{texts.plain(host_class, 200)}**\n" if host_class else ""
        tables.append(name + texts.block("\n".join(_table(list(part)))))
    return "\n".join(tables)


def _table(places: Sequence[Standing]) -> list[str]:
    """Return lines as narrow as possible: a phone shows few characters in a line."""
    rows = [("#", "User", "Time", "95 %", "Submission"), *map(_row, places)]
    wide = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"{row[0]:>{wide[0]}}  {row[1]:<{wide[1]}}  {row[2]:>{wide[2]}}  {row[3]:>{wide[3]}}  {row[4]}"
        for row in rows
    ]


def _official(final: Json) -> str:
    """Return the official order, as far as a field has room for it, and how certain it is."""
    places = []
    for each in final["places"][:PAGE]:
        user = texts.shortened(texts.one_line(each["shown_name"] or each["user"] or DELETED), 20)
        places.append(f"{rank_text(each['place'], tied=each['tied']):>3}  {user}  #{each['submission']}")
    more = f"… and {len(final['places']) - PAGE} more\n" if len(final["places"]) > PAGE else ""
    return (
        (texts.block("\n".join(places)) + "\n" if places else "") + more + texts.plain(final["sentence"], 300)
    )


def _apart(places: Sequence[Standing], why: str) -> str:
    """Return the text of a field, whose lines leave out what it has no room for."""
    rows = [(trust_text(place.trust), *_row(place)[1:3]) for place in places[:PAGE]]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = "\n".join(f"{row[0]:>{wide[0]}}  {row[1]:<{wide[1]}}  {row[2]:>{wide[2]}}" for row in rows)
    more = f"… and {len(places) - PAGE} more\n" if len(places) > PAGE else ""
    return f"{texts.block(table)}\n{more}{why}"


def _row(place: Standing) -> tuple[str, str, str, str, str]:
    user, file = texts.one_line(place.shown), texts.one_line(place.file_name)
    mark = f" ({level})" if (level := level_mark(place.trust)) else ""
    return (
        rank_text(place.rank, tied=place.tied),
        texts.shortened(user, 20),
        place_time(place.score_s, place.ranked_by, place.score.speedup),
        score_interval(place.score),
        f"#{place.submission_id} {texts.shortened(file, 20)}{mark}",
    )


def _levels(places: Sequence[Standing]) -> list[str]:
    levels = sorted({level_mark(place.trust) for place in places} - {""})
    return [f"some times are {' or '.join(levels)}"] if levels else []
