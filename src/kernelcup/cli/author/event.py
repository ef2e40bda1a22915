"""Words of ``kernelcup event``: events of leaderboards, and their table of points."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kernelcup.app.events import announcements, events, finalists, points, registration
from kernelcup.app.events.points import PointsTable
from kernelcup.app.events.registration import Taking
from kernelcup.cli.compete.account import write_archive
from kernelcup.cli.operations import Answer, commands_of, echo, listed, say
from kernelcup.cli.show.boards import moment, times
from kernelcup.cli.show.output import fields
from kernelcup.domain.events import Event, Registered, Said, Team
from kernelcup.reporting.phrases import points_rule

commands = partial(
    commands_of, "event", groups={"team": "Compete together: found a team, join one, leave it."}
)


def saved(answer: Answer) -> dict[str, object]:
    """Write an event's dataset to a new file in the current folder."""
    return write_archive(f"{answer.given['event']}-dataset.zip", answer.value)


def event_lines(answer: Answer) -> Iterable[str]:
    """Return an event's settings and text."""
    event: Event = answer.value
    yield f"{event.name} by {event.creator}: {event.shown_title}"
    dates = {
        "opens": event.opens_at,
        "qualifier until": event.qualifier_at,
        "ends": event.ends_at,
        "register until": event.register_by,
        "teams until": event.teams_until,
    }
    yield from (f"{word} {moment(at)}" for word, at in dates.items() if at is not None)
    if event.registration:
        yield "only who has registered may submit" + (f"; licence {event.licence}" if event.licence else "")
    if event.has_teams:
        yield f"teams of at most {event.team_size}"
    yield points_rule(event)
    yield from (f"prize of place {at}: {prize}" for at, prize in enumerate(event.prizes, 1))
    if event.text:
        yield from ("", *event.text.splitlines())


def made_lines(answer: Answer) -> Iterable[str]:
    """Say what comes after the event was made."""
    yield f"event {answer.value.name} by {answer.value.creator}"
    yield f"Next: kernelcup event add {answer.value.name} BOARD{answer.option}"


def list_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each event."""
    if not answer.value:
        yield f"There is no event. Next: kernelcup event create NAME{answer.option}"
    for event in answer.value:
        yield f"{event.name}  {event.shown_title}  by {event.creator}"


def points_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each competitor."""
    table: PointsTable = answer.value
    for row in table.rows:
        parts = [
            f"{column.leaderboard} on {column.device} {cell.points:g} (rank {cell.rank})"
            for column, cell in zip(table.columns, row.cells, strict=True)
            if cell is not None
        ]
        yield f"{row.place}  {row.shown}  {row.total:g}  = {' + '.join(parts)}"
    if not table.rows:
        yield "No one is ranked yet."
    if any(column.frozen_since for column in table.columns):
        yield "As of the freeze of its leaderboards."


def team_line(team: Team) -> str:
    """Return a team with its members, and its code where that is known."""
    others = ", ".join(each for each in team.members if each != team.captain)
    code = f"  code {team.code}" if team.code else ""
    return f"{team.name}: {team.captain}{f', {others}' if others else ''}{code}"


def taking_lines(answer: Answer) -> Iterable[str]:
    """Say how a user takes part, and what comes next."""
    taking: Taking | None = answer.value
    name = answer.given["event"]
    if taking is None:
        yield f"You are not registered. Next: kernelcup event register {name}{answer.option}"
        return
    yield f"{taking.registered.user} takes part in {name}"
    yield from (f"{question}: {reply}" for question, reply in taking.registered.answers.items() if reply)
    if taking.team is not None:
        yield f"team {team_line(taking.team)}"


def registered_line(each: Registered) -> str:
    """Return who has registered, with answers and team."""
    answers = "; ".join(f"{question}: {reply}" for question, reply in each.answers.items() if reply)
    return "  ".join(filter(None, (each.user, each.team, answers)))


say(
    events.export_event,
    lambda answer: "{file}: {bytes:,} bytes".format(**saved(answer)),
    saved,
)
say(registration.register, taking_lines)
say(
    registration.my_registration,
    taking_lines,
    lambda answer: {"registered": None} if answer.value is None else fields(answer.value),
)
say(registration.registrations, lambda answer: map(registered_line, answer.value), listed("registrations"))
say(registration.list_teams, lambda answer: map(team_line, answer.value), listed("teams"))
for _call in (registration.create_team, registration.join_team):
    say(_call, lambda answer: team_line(answer.value))


def said_line(each: Said) -> str:
    """Return what was said, by whom and to what."""
    to = f" to {each.answer_to}" if each.answer_to is not None else ""
    who = f" by {each.shown}" if each.user else ""
    private = " (private)" if each.private else ""
    return f"{each.id}  {moment(each.at)}  {each.kind.value}{to}{who}{private}: {each.text}"


say(announcements.list_said, lambda answer: map(said_line, answer.value), listed("said"))
say(
    finalists.advance,
    lambda answer: (
        f"{', '.join(answer.value.competitors)} take part in {answer.value.leaderboard}: "
        f"{', '.join(answer.value.members)} are members"
    ),
)
say(events.create_event, made_lines)
say(events.show_event, event_lines)
say(events.update_event, event_lines)
say(events.list_events, list_lines, listed("events"))
say(events.delete_event, "event {event} is deleted; its leaderboards stay", echo(deleted="event"))
say(
    events.add_board,
    lambda answer: (
        f"{answer.value.name} counts in {answer.value.event} with weight {answer.value.event_weight:g}; "
        + times(answer.value)
    ),
    lambda answer: answer.value.as_object(),
)
say(points.points, points_lines)
