"""``kernelcup admin machines``: the hosts that judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.help import HelpGroup
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show.json_object import json_object
from kernelcup.cli.show.plain_text import plain
from kernelcup.client.requests import path_of, reader
from kernelcup.errors import InvalidValue

if TYPE_CHECKING:
    from kernelcup.app.machines.machines import MachineView
    from kernelcup.app.machines.reservations import Reservation

app = typer.Typer(help="The machines that judge.", cls=HelpGroup, no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="MACHINE", help="Name of the machine.")]


@app.command("list")
@with_backend
def list_machines(backend: Backend, as_json: JsonOption = False) -> None:
    """List the machines: state, class, running jobs, last trouble, time and cost."""
    from kernelcup.app.boards.changes import as_json as object_of
    from kernelcup.app.machines import machines
    from kernelcup.app.machines.machines import MachineView

    found = backend.ask(
        lambda db: machines.list_machines(db, now=_now()),
        lambda api: api.ask(reader(list[MachineView]), "GET", "/machines"),
    )
    if as_json:
        typer.echo(json.dumps({"machines": [object_of(each) for each in found]}))
        return
    show(found)


@app.command("add")
@with_backend
def add(
    backend: Backend,
    name: NameArgument,
    own: Annotated[
        bool,
        typer.Option("--own", help="You vouch for it: it may get hidden cases, and its reports are trusted."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Register a machine whose agent will connect, and print the agent's token. It is shown only once."""
    from kernelcup.app.machines import machines

    token = backend.ask(
        lambda db: machines.add_agent(db, name, is_own=own, now=_now()),
        lambda api: api.ask(
            lambda body: str(body["token"]), "POST", "/machines", json={"name": name, "is_own": own}
        ),
    )
    if as_json:
        typer.echo(json.dumps({"name": name, "token": token}))
        return
    typer.echo(token)
    typer.echo(plain(f"On {name}: KERNELCUP_AGENT_TOKEN=... kernelcup runner agent SERVER"), err=True)


@app.command("drain")
@with_backend
def drain(backend: Backend, name: NameArgument, as_json: JsonOption = False) -> None:
    """Let a machine end its jobs and take no more."""
    _change(backend, name, "drains", as_json=as_json, is_draining=True)


@app.command("resume")
@with_backend
def resume(backend: Backend, name: NameArgument, as_json: JsonOption = False) -> None:
    """Let a machine take jobs again."""
    _change(backend, name, "takes jobs again", as_json=as_json, is_draining=False)


@app.command("own")
@with_backend
def own(
    backend: Backend,
    name: NameArgument,
    lent: Annotated[bool, typer.Option("--lent", help="You do not vouch for it any more.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Vouch for a machine: it may get hidden cases, and its results are not marked as a lent one's."""
    _change(backend, name, "is lent" if lent else "is yours", as_json=as_json, is_own=not lent)


@app.command("price")
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


@app.command("rank")
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
    from kernelcup.app.machines import machines

    chosen = names or []
    backend.ask(
        lambda db: machines.set_ranking(db, board, chosen, now=_now()),
        lambda api: api.ask(
            lambda _: None, "PUT", path_of("leaderboards", board, "machines"), json={"machines": chosen}
        ),
    )
    if as_json:
        typer.echo(json.dumps({"leaderboard": board, "machines": chosen}))
    else:
        typer.echo(plain(f"{board} is ranked by {', '.join(chosen) or 'all machines'}"))


@app.command("remove")
@with_backend
def remove(backend: Backend, name: NameArgument, as_json: JsonOption = False) -> None:
    """Forget a machine; its agent's token is void, and its jobs run again elsewhere."""
    from kernelcup.app.machines import machines

    backend.ask(
        lambda db: machines.remove(db, name, now=_now()),
        lambda api: api.ask(lambda _: None, "DELETE", path_of("machines", name)),
    )
    typer.echo(json.dumps({"removed": name}) if as_json else plain(f"{name} is removed"))


@app.command("reserve")
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
    from kernelcup.app.boards.deadlines import parse_end, parse_opening
    from kernelcup.app.machines import reservations

    if (board is None) == (not maintenance):
        raise InvalidValue("Give either --board or --maintenance.")
    now = _now()
    begins_at, ends_at = now if begins is None else parse_opening(begins), parse_end(until)
    body = {"machines": names, "board": board, "reason": reason}
    body |= {"begins_at": begins_at.isoformat(), "ends_at": ends_at.isoformat()}
    numbers = backend.ask(
        lambda db: reservations.reserve(
            db, names, board=board, begins_at=begins_at, ends_at=ends_at, reason=reason, now=now
        ),
        lambda api: api.ask(reader(list[int]), "POST", "/reservations", json=body),
    )
    if as_json:
        typer.echo(json.dumps(body | {"ids": numbers}))
        return
    what = "under maintenance" if board is None else f"reserved for {board}"
    when = f"from {begins_at:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC"
    typer.echo(plain(f"{', '.join(names)}: {what} {when}; numbers {', '.join(map(str, numbers))}"))


@app.command("reservations")
@with_backend
def list_reservations(backend: Backend, as_json: JsonOption = False) -> None:
    """List the reservations and maintenance of machines that have not ended."""
    from kernelcup.app.machines import reservations
    from kernelcup.cli.show import tables, terminal

    found = backend.ask(
        lambda db: reservations.list_reservations(db, now=_now()),
        lambda api: api.ask(_read_reservations, "GET", "/reservations"),
    )
    if as_json:
        shown = ("id", "machine", "board", "begins_at", "ends_at", "reason")
        typer.echo(json.dumps({"reservations": [json_object(each, *shown) for each in found]}))
        return
    if not found:
        typer.echo("No machine is reserved.")
        return
    table = tables.new_table("number", "machine", "for", "from", "until", "reason")
    for each in found:
        times = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (each.begins_at, each.ends_at))
        cells = (str(each.id), each.machine, each.board or "maintenance", *times, each.reason)
        table.add_row(*map(tables.cell, cells))
    tables.print_table(terminal.console(), "Reservations", table, drop=("reason",))


def _read_reservations(body: list[dict[str, Any]]) -> list[Reservation]:
    from kernelcup.app.machines.reservations import Reservation

    # The server names the leaderboard and keeps its number to itself.
    return reader(list[Reservation])([{**each, "board_id": None} for each in body])


@app.command("release")
@with_backend
def release(
    backend: Backend,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, max=2**63 - 1, help="Number of the reservation.")
    ],
    as_json: JsonOption = False,
) -> None:
    """End a reservation or maintenance, or one that is to come."""
    from kernelcup.app.machines import reservations

    backend.ask(
        lambda db: reservations.cancel(db, number, now=_now()),
        lambda api: api.ask(lambda _: None, "DELETE", path_of("reservations", number)),
    )
    typer.echo(json.dumps({"released": number}) if as_json else f"reservation {number} has ended")


@app.command("compare")
@with_backend
def compare(
    backend: Backend,
    first: Annotated[str, typer.Argument(metavar="MACHINE", help="Name of a machine.")],
    second: Annotated[str, typer.Argument(metavar="OTHER", help="Name of the other one.")],
    device: Annotated[
        str | None, typer.Option("--device", help="The device; default: the one that both have.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether two machines give the same times, by canaries and by submissions that both have judged.

    Until their classes agree, a leaderboard with times of both has a ranking for each.
    """
    from kernelcup.app.machines import agreement

    found = backend.ask(
        lambda db: agreement.compare(db, first, second, device=device, now=_now()),
        lambda api: api.ask(
            reader(agreement.Comparison),
            "POST",
            path_of("machines", first, "compare"),
            json=_other(second, device),
        ),
    )
    if as_json:
        typer.echo(json.dumps({**asdict(found), "agrees": found.agrees}))
        return
    said = _tell(found.agrees, "agree", "do not agree", "cannot be compared yet")
    typer.echo(plain(f"{first} and {second} {said} on {found.device}"))
    ratio = "" if found.ratio is None else f", {second} takes {found.ratio:.4f} of the time of {first}"
    least = agreement.FEWEST_PAIRS
    typer.echo(plain(f"submissions that both have judged: {found.pairs}, at least {least}{ratio}"))
    if found.disagree:
        typer.echo(f"their intervals do not overlap: {', '.join(map(str, found.disagree))}")
    typer.echo(f"canaries: {_tell(found.canaries_agree, 'agree', 'differ', 'not known for both')}")


def _other(name: str, device: str | None) -> dict[str, str | None]:
    return {"other": name, "device": device}


def _tell(value: bool | None, yes: str, no: str, unknown: str) -> str:
    return unknown if value is None else yes if value else no


def show(found: Sequence[MachineView]) -> None:
    """Print machines for people."""
    from kernelcup.cli.show import tables, terminal

    if not found:
        typer.echo("No machine has judged yet; `kernelcup serve` adds its own.")
        return
    columns = ("machine", "state", "launcher", "slots", "jobs", "whose", "busy", "cost", "class", "trouble")
    table = tables.new_table(*columns, right=("busy", "cost"))
    for each in found:
        slots = ", ".join(f"{count} x {device}" for device, count in each.slots.items())
        jobs = ", ".join(map(str, each.running))
        whose = "yours" if each.is_own else "lent"
        busy = f"{each.busy_s / 3600:.1f} h"
        cells = (each.name, each.state.value, each.launcher, slots, jobs, whose, busy, f"{each.cost:.2f}")
        table.add_row(*map(tables.cell, (*cells, each.host_class, each.trouble)))
    drop = ("class", "cost", "launcher", "busy")
    tables.print_table(terminal.console(), "Machines", table, drop=drop)


def _change(backend: Backend, name: str, text: str, *, as_json: bool, **change: Any) -> None:
    from kernelcup.app.machines import machines

    backend.ask(
        lambda db: machines.change(db, name, now=_now(), **change),
        lambda api: api.ask(lambda _: None, "PATCH", path_of("machines", name), json=change),
    )
    typer.echo(json.dumps({"name": name, **change}) if as_json else plain(f"{name} {text}"))


def _now() -> datetime:
    return datetime.now(UTC)
