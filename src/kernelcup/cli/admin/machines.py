"""``kernelcup admin machines``: the hosts that judge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kernelcup.app.boards.deadlines import parse_end, parse_opening
from kernelcup.app.machines import agreement, machines, outages, reservations
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.operations import Answer, echo, listed, say
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show import tables, terminal
from kernelcup.cli.show.output import json_object, plain
from kernelcup.errors import InvalidValue, NotFound

NameArgument = Annotated[str, typer.Argument(metavar="MACHINE", help="Name of the machine.")]


@with_backend
def drain(backend: Backend, name: NameArgument, as_json: JsonOption = False) -> None:
    """Let a machine end its jobs and take no more."""
    _change(backend, name, "drains", as_json=as_json, is_draining=True)


@with_backend
def resume(backend: Backend, name: NameArgument, as_json: JsonOption = False) -> None:
    """Let a machine take jobs again."""
    _change(backend, name, "takes jobs again", as_json=as_json, is_draining=False)


@with_backend
def own(
    backend: Backend,
    name: NameArgument,
    lent: Annotated[bool, typer.Option("--lent", help="You do not vouch for it any more.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Vouch for a machine: it may get hidden cases, and its results are not marked as a lent one's."""
    _change(backend, name, "is lent" if lent else "is yours", as_json=as_json, is_own=not lent)


@with_backend
def price(
    backend: Backend,
    name: NameArgument,
    per_hour: Annotated[float, typer.Argument(metavar="PER_HOUR", help="Cost of one busy GPU for an hour.")],
    as_json: JsonOption = False,
) -> None:
    """Set what a machine costs."""
    text = f"costs {per_hour:g} for each hour of a busy GPU"
    _change(backend, name, text, as_json=as_json, price_per_hour=per_hour)


@with_backend
def rank(
    backend: Backend,
    board: Annotated[str, typer.Argument(metavar="BOARD", help="Name of the leaderboard.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[MACHINE]...", help="The machines; none for all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Name the machines that rank a leaderboard.

    If you vouch for one of them, only machines that you vouch for rank it. If all are lent, it is ranked
    without hidden cases.
    """
    chosen = names or []
    backend.call(machines.set_ranking, board=board, names=chosen)
    if as_json:
        typer.echo(json.dumps({"leaderboard": board, "machines": chosen}))
    else:
        typer.echo(plain(f"{board} is ranked by {', '.join(chosen) or 'all machines'}"))


@with_backend
def reserve(
    backend: Backend,
    names: Annotated[list[str], typer.Argument(metavar="MACHINE...", help="The machines.")],
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="When it ends.")],
    board: Annotated[
        str | None, typer.Option("--board", metavar="BOARD", help="The leaderboard that has them alone.")
    ] = None,
    maintenance: Annotated[bool, typer.Option("--maintenance", help="They judge nothing.")] = False,
    begins: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins; default: now.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="What users are told.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Reserve machines for a leaderboard, or announce their maintenance.

    Meanwhile they begin no other jobs; those that run at its beginning end first.
    """
    if (board is None) == (not maintenance):
        raise InvalidValue("Give either --board or --maintenance.")
    now = datetime.now(UTC)
    begins_at, ends_at = now if begins is None else parse_opening(begins), parse_end(until)
    numbers = backend.call(
        reservations.reserve, names=names, board=board, begins_at=begins_at, ends_at=ends_at, reason=reason
    )
    if as_json:
        body: dict[str, Any] = {"machines": names, "board": board, "reason": reason, "ids": numbers}
        typer.echo(json.dumps(body | {"begins_at": begins_at.isoformat(), "ends_at": ends_at.isoformat()}))
        return
    what = "under maintenance" if board is None else f"reserved for {board}"
    when = f"from {begins_at:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC"
    typer.echo(plain(f"{', '.join(names)}: {what} {when}; numbers {', '.join(map(str, numbers))}"))


def _tell(value: bool | None, yes: str, no: str, unknown: str) -> str:
    return unknown if value is None else yes if value else no


def _change(backend: Backend, name: str, text: str, *, as_json: bool, **change: Any) -> None:
    backend.call(machines.change, name=name, **change)
    typer.echo(json.dumps({"name": name, **change}) if as_json else plain(f"{name} {text}"))


def added_lines(answer: Answer) -> Iterable[str]:
    """Return the token; what to do with it goes to stderr."""
    typer.echo(
        plain(f"On {answer.value.name}: KERNELCUP_AGENT_TOKEN=... kernelcup runner agent SERVER"), err=True
    )
    yield answer.value.token


def show(answer: Answer) -> Iterable[str]:
    """Print machines as a table."""
    if not answer.value:
        return ["No machine has judged yet; `kernelcup serve` adds its own."]
    columns = ("machine", "state", "launcher", "slots", "jobs", "whose", "busy", "cost", "class", "trouble")
    table = tables.new_table(*columns, right=("busy", "cost"))
    for machine in answer.value:
        slots = ", ".join(f"{count} x {device}" for device, count in machine.slots.items())
        jobs = ", ".join(map(str, machine.running))
        whose = "yours" if machine.is_own else "lent"
        busy, cost = f"{machine.busy_s / 3600:.1f} h", f"{machine.cost:.2f}"
        cells = (machine.name, machine.state.value, machine.launcher, slots, jobs, whose, busy, cost)
        table.add_row(*map(tables.cell, (*cells, machine.host_class, machine.trouble)))
    drop = ("class", "cost", "launcher", "busy")
    tables.print_table(terminal.console(), "Machines", table, drop=drop)
    return []


def show_reservations(answer: Answer) -> Iterable[str]:
    """Print reservations as a table."""
    if not answer.value:
        return ["No machine is reserved."]
    table = tables.new_table("number", "machine", "for", "from", "until", "reason")
    for each in answer.value:
        times = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (each.begins_at, each.ends_at))
        cells = (str(each.id), each.machine, each.board or "maintenance", *times, each.reason)
        table.add_row(*map(tables.cell, cells))
    tables.print_table(terminal.console(), "Reservations", table, drop=("reason",))
    return []


def comparison_lines(answer: Answer) -> Iterable[str]:
    """Return what two machines say of the same work."""
    found, first, second = answer.value, answer.given["name"], answer.given["other"]
    said = _tell(found.agrees, "agree", "do not agree", "cannot be compared yet")
    yield f"{first} and {second} {said} on {found.device}"
    ratio = "" if found.ratio is None else f", {second} takes {found.ratio:.4f} of the time of {first}"
    yield f"submissions that both have judged: {found.pairs}, at least {agreement.FEWEST_PAIRS}{ratio}"
    if found.disagree:
        yield f"their intervals do not overlap: {', '.join(map(str, found.disagree))}"
    yield f"canaries: {_tell(found.canaries_agree, 'agree', 'differ', 'not known for both')}"


SHOWN = ("id", "machine", "board", "begins_at", "ends_at", "reason")

say(
    machines.list_machines,
    show,
    listed("machines"),
)
say(machines.add_agent, added_lines)
say(machines.remove, "{name} is removed", echo(removed="name"))
say(
    reservations.list_reservations,
    show_reservations,
    lambda answer: {"reservations": [json_object(each, *SHOWN) for each in answer.value]},
)
say(reservations.cancel, "reservation {reservation_id} has ended", echo(released="reservation_id"))
say(
    agreement.compare,
    comparison_lines,
    lambda answer: {**asdict(answer.value), "agrees": answer.value.agrees},
)
say(
    outages.bring_back,
    lambda answer: [
        f"GPU {fault.gpu} of {fault.machine} ({fault.device}) is in service again" for fault in answer.value
    ],
    listed("in_service"),
    lambda answer: {NotFound: f"kernelcup devices{answer.option}"},
)
