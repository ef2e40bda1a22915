"""``kernelcup admin pause``, ``start`` and ``pauses``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import typer

from kernelcup.app.rules import pauses
from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.operations import Answer, say
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show.output import json_object, plain
from kernelcup.errors import InvalidValue, NotFound

SERVICE, LEADERBOARD, DEVICE = "service", "leaderboard", "device"

WhatArgument = Annotated[
    str,
    typer.Argument(
        metavar="[WHAT]", help="service, leaderboard or device; leaderboard and device need a name."
    ),
]
NameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Name of the leaderboard or device.")
]


@with_backend
def pause(
    backend: Backend,
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown to everyone who submits.")],
    what: WhatArgument = SERVICE,
    name: NameArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Stop accepting submissions for the service, a leaderboard or a device. Queued jobs are still judged.

    Jobs for a paused device stay in the queue.
    """
    check_pausable(what, name)
    check_reason(reason)
    key = key_of(backend, what, name)
    if what == SERVICE:
        backend.call(pauses.pause_service, reason=reason)
    else:
        backend.call(pauses.pause, scope=what, key=key, reason=reason)
    back = f"kernelcup admin start {' '.join(filter(None, (what, key)))}{backend.option}"
    if as_json:
        typer.echo(json.dumps({"paused": what, "name": key or None, "reason": reason}))
        return
    typer.echo(plain(f"{subject(what, key)} accepts no submissions now: {reason}\nNext: {back}"))


@with_backend
def start(
    backend: Backend,
    what: WhatArgument = SERVICE,
    name: NameArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Accept submissions again after a pause."""
    check_pausable(what, name)
    key = key_of(backend, what, name)
    with wiring.pointing_to(f"kernelcup admin pauses{backend.option}", NotFound):
        if what == SERVICE:
            backend.call(pauses.start_service)
        else:
            backend.call(pauses.unpause, scope=what, key=key)
    if as_json:
        typer.echo(json.dumps({"started": what, "name": key or None}))
    else:
        typer.echo(plain(f"{subject(what, key)} accepts submissions again"))


def pause_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each pause."""
    if not answer.value:
        yield "nothing is paused"
    for each in answer.value:
        since = f"since {each.since:%Y-%m-%d %H:%M} UTC by {each.by}"
        yield f"{subject(each.scope.value, each.key)}: {each.reason}  ({since})"


def check_pausable(what: str, name: str | None) -> None:
    """Raise ``InvalidValue`` unless this can be paused."""
    if what not in (SERVICE, LEADERBOARD, DEVICE):
        raise InvalidValue(f"{what}: expected service, leaderboard NAME or device NAME")
    if (what == SERVICE) != (name is None):
        wanted = "takes no name" if what == SERVICE else "needs a name"
        raise InvalidValue(f"{what} {wanted}: expected service, leaderboard NAME or device NAME")


def check_reason(reason: str) -> None:
    """Raise ``InvalidValue`` for a blank reason."""
    if not reason.strip():
        raise InvalidValue("--reason: expected a reason")


def key_of(backend: Backend, what: str, name: str | None) -> str:
    """Return the canonical name of the paused leaderboard or device; empty for the service."""
    if name is None:
        return ""
    return backend.board(name).name if what == LEADERBOARD else name


def subject(what: str, key: str) -> str:
    """Return the paused thing's name for people."""
    return "the service" if what == SERVICE else f"{what} {key}"


say(
    pauses.list_pauses,
    pause_lines,
    lambda answer: {
        "pauses": [
            json_object(each, "reason", "since", "by", paused=each.scope, name=each.key or None)
            for each in answer.value
        ]
    },
)
