"""Words of ``kernelcup admin limit``, ``late``, ``close``, ``freeze`` and ``unveil``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernelcup.app.boards import late_exceptions, managing
from kernelcup.app.results import freezes
from kernelcup.app.rules import limits
from kernelcup.cli.operations import Answer, echo, listed, say
from kernelcup.cli.show.boards import moment
from kernelcup.cli.show.output import json_object
from kernelcup.domain.answers import Limit
from kernelcup.errors import Forbidden, NotFound

PEOPLE = "kernelcup admin invite create BOARD   (people without an account join with a code)"
"""The next step if no user has the name."""
NAMES = (
    "id",
    "text",
    "user",
    "device",
    "launcher",
    "mode_group",
    "per_user",
    "quantity",
    "amount",
    "window_s",
)


def limit_object(limit: Limit) -> dict[str, Any]:
    """Return a limit as ``--json`` prints it."""
    return json_object(limit, *NAMES, leaderboard=limit.board)


def limit_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each limit."""
    if not answer.value:
        yield f'There is no limit. Next: kernelcup admin limit add "10/hour" --board BOARD{answer.option}'
    for limit in answer.value:
        yield f"limit {limit.id}: {limit.text}"


def late_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each exception."""
    if not answer.value:
        yield f"{answer.given['board']} has no late exceptions"
    for exception in answer.value:
        yield f"{exception.user}  until {moment(exception.until)}"


def freeze_lines(answer: Answer) -> Iterable[str]:
    """Say what others see, and what comes next."""
    board, until = answer.value, answer.given["at"]
    at = "they are now" if until is None or board.freeze_at is None else f"of {moment(board.freeze_at)}"
    yield f"others see the standings of {board.name} as {at}"
    yield f"Next: kernelcup admin unveil {board.name}{answer.option}   (once the result may be seen)"


say(
    limits.add_limit,
    lambda answer: f"limit {answer.value.id}: {answer.value.text}",
    lambda answer: limit_object(answer.value),
    lambda answer: {NotFound: PEOPLE if answer.given["user"] is not None else "kernelcup devices"},
)
say(
    limits.list_limits,
    limit_lines,
    listed("limits", limit_object),
    lambda _: {Forbidden: "name a leaderboard with --board"},
)
say(
    limits.remove_limit,
    "limit {limit_id} is removed",
    echo(removed="limit_id"),
    lambda answer: {NotFound: f"kernelcup admin limit list{answer.option}"},
)
say(
    late_exceptions.grant_late,
    lambda answer: (
        "{user} may submit to {board} until ".format(**answer.given) + moment(answer.given["until"])
    ),
    lambda answer: {
        "leaderboard": answer.given["board"],
        "user": answer.given["user"],
        "until": answer.given["until"].isoformat(),
    },
    lambda _: {NotFound: PEOPLE},
)
say(
    late_exceptions.revoke_late,
    "the deadline of {board} applies to {user} again",
    echo(leaderboard="board", revoked="user"),
    lambda answer: {NotFound: f"kernelcup admin late list {answer.given['board']}{answer.option}"},
)
say(
    late_exceptions.late_exceptions,
    late_lines,
    listed("late", leaderboard="board"),
)
say(
    managing.close,
    lambda answer: f"{answer.value.name} is closed since {moment(answer.value.deadline)}",
    lambda answer: answer.value.as_object(),
)
say(freezes.freeze, freeze_lines, lambda answer: answer.value.as_object())
say(
    freezes.unveil,
    lambda answer: f"everyone sees the current standings of {answer.value.name}",
    lambda answer: answer.value.as_object(),
)
