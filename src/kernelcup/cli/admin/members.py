"""Words of ``kernelcup admin invite`` and ``members``, and the import of a class list."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelcup.app.courses import class_list, membership
from kernelcup.app.courses.class_list import ImportResult
from kernelcup.cli.admin.limits import PEOPLE
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.operations import Answer, echo, listed, say
from kernelcup.cli.options import BoardArgument, JsonOption
from kernelcup.cli.show.output import fields, json_object, plain
from kernelcup.domain.answers import Invite, Member
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.reporting.phrases import plural

LARGEST_LIST_BYTES = 1_000_000
STDIN = "-"


def invite_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each code."""
    if not answer.value:
        yield f"{_place(answer)} has no invites. Next: {_invite(answer)}"
    for invite in answer.value:
        used = f"used by {invite.claimed_by}" if invite.claimed_by is not None else "not used"
        label = f"  {invite.label}" if invite.label else ""
        yield f"{invite.code}{label}  [{', '.join(invite.boards or invite.courses)}]  {used}"


def member_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each person of a register."""
    if not answer.value:
        yield f"{_place(answer)} has no members. Next: {_invite(answer)}"
    for member in answer.value:
        shown = f" as {member.pseudonym}" if member.pseudonym is not None else ""
        person = "  ".join(filter(None, (member.label, member.name, member.group)))
        since = "not joined" if member.joined_at is None else f"since {member.joined_at:%Y-%m-%d %H:%M} UTC"
        yield f"{member.user or '-'}{shown}  {since}" + (f"  {person}" if person else "")


def _place(answer: Answer) -> str:
    return str(answer.given.get("board") or answer.given["name"])


def _invite(answer: Answer) -> str:
    command = "admin invite create" if "board" in answer.given else "course invite"
    return f"kernelcup {command} {_place(answer)}{answer.option}"


def code_lines(answer: Answer) -> Iterable[str]:
    """Return the codes; the next step goes to stderr, since the codes may go to a file."""
    yield from answer.value.codes
    typer.echo(
        "Next: recipients open /join?code=CODE on the site, or, signed in: kernelcup join CODE", err=True
    )


def invite_object(each: Invite) -> dict[str, Any]:
    """Return an invite as the object that ``--json`` prints."""
    names = ("code", "label", "name", "group", "pseudonym", "created_at", "claimed_by", "claimed_at")
    return json_object(each, *names, courses=each.courses, leaderboards=each.boards)


def member_object(each: Member) -> dict[str, Any]:
    """Return a person of a register as the object that ``--json`` prints."""
    return json_object(each, "user", "label", "name", "group", "pseudonym", "joined_at")


say(
    membership.make_invites,
    code_lines,
)
say(membership.list_invites, invite_lines, listed("invites", invite_object, leaderboard="board"))
say(
    membership.revoke_invite,
    lambda answer: (
        f"{answer.value.code} is revoked"
        + ("; the user who joined with it stays a member" if answer.value.was_claimed else "")
    ),
    lambda answer: {"revoked": answer.value.code, "was_claimed": answer.value.was_claimed},
    lambda answer: {NotFound: f"kernelcup admin invite list BOARD{answer.option}"},
)
say(membership.members, member_lines, listed("members", member_object, leaderboard="board"))
say(
    membership.add_member,
    "{user} is a member of {board}",
    echo(leaderboard="board", user="user", pseudonym="pseudonym"),
    lambda _: {NotFound: PEOPLE},
)
say(
    membership.remove_member,
    "{user} is no longer a member of {board}",
    echo(leaderboard="board", removed="user"),
    lambda answer: {NotFound: f"kernelcup admin members list {answer.given['board']}{answer.option}"},
)


ListArgument = Annotated[
    Path,
    typer.Argument(
        metavar="CSV",
        help="CSV with a header: user or label or both, and optionally name, group, pseudonym; - is stdin.",
    ),
]


@with_backend
def import_members(
    backend: Backend,
    board: BoardArgument,
    file: ListArgument,
    as_json: JsonOption = False,
) -> None:
    """Make everyone on a class list a member, all or none; people without an account get a code each.

    Standard output has one code on each line, with its recipient.
    """
    named = backend.board(board).name
    result = backend.call(class_list.import_members, board=named, csv_text=read_list(file))
    _tell_import(named, "leaderboard", result, as_json=as_json)


@with_backend
def import_into_course(
    backend: Backend,
    course: Annotated[str, typer.Argument(metavar="COURSE", help="Name of the course.")],
    file: ListArgument,
    as_json: JsonOption = False,
) -> None:
    """Make everyone on a class list a member, all or none; people without an account get a code each.

    Its order becomes the register's. Standard output has one code on each line, with its recipient.
    """
    result = backend.call(class_list.import_course_members, name=course, csv_text=read_list(file))
    _tell_import(course, "course", result, as_json=as_json)


def _tell_import(named: str, kind: str, result: ImportResult, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(fields(result) | {kind: named}))
        return
    known = plural(len(result.already), "was a member", "were members")
    told = f"{named}: {plural(len(result.added), 'new member')}, {known} already"
    typer.echo(plain(f"{told}, {plural(len(result.codes), 'code')}"), err=True)
    if result.without_account:
        absent = ", ".join(result.without_account)
        typer.echo(plain(f"without an account, so these got a code: {absent}"), err=True)
    for each in result.codes:
        typer.echo(plain(f"{each.code}  {each.label}"))


def read_list(file: Path) -> str:
    """Return the text of a class list. Raise ``NotFound`` or ``InvalidValue``."""
    try:
        if str(file) == STDIN:
            content = sys.stdin.buffer.read(LARGEST_LIST_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(LARGEST_LIST_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from error
    if len(content) > LARGEST_LIST_BYTES:
        raise InvalidValue(f"{file}: a list may have at most {LARGEST_LIST_BYTES:,} bytes; this one has more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidValue(f"{file}: expected CSV encoded as UTF-8") from None
