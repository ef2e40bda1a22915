"""Machines, and the leaderboards that they rank."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from kernelcup.domain import slots_for, split_count
from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.engine.views import once
from kernelcup.tables import BoardMachineRow, MachineRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A host that judges, or a provider that does so for us."""

    name: str
    launcher: str
    slots: Mapping[str, int]
    """The number of slots by device."""
    facts: Mapping[str, Any]
    labels: Sequence[str]
    is_own: bool
    """Whether the operator vouches for it."""
    is_draining: bool
    trouble: str
    joined_at: datetime
    seen_at: datetime | None
    busy_s: float
    price_per_hour: float
    """Of one busy GPU."""
    cost: float
    """Of its work, at the prices of its time."""
    agent: str | None = None
    """The session of the agent that is connected."""

    def slots_for(self, device: str) -> int:
        """Return how many jobs of a device it can run at once."""
        return slots_for(self.slots, device)

    def slots_of(self, model: str) -> int:
        """Return how many jobs that take one GPU of a model fit on it."""
        named = ((split_count(name), count) for name, count in self.slots.items())
        return max((gpus * count for (each, gpus), count in named if each == model), default=0)


@once
def every(session: Session) -> list[Machine]:
    """Return all machines by name."""
    return [_machine(row) for row in session.scalars(select(MachineRow).order_by(MachineRow.name))]


def models_beside(session: Session, device: str) -> set[str]:
    """Return the models that some machine has together with a device, its own among them; none if none has it."""
    having = [each for each in every(session) if each.slots_for(device) > 0]
    return {split_count(name)[0] for each in having for name in each.slots}


def find(session: Session, name: str) -> Machine | None:
    row = session.get(MachineRow, name, populate_existing=True)
    return None if row is None else _machine(row)


def of_token(session: Session, token_hash: str) -> Machine | None:
    """Return the machine of an agent's token."""
    row = session.scalar(select(MachineRow).where(MachineRow.token_hash == token_hash))
    return None if row is None else _machine(row)


def agent_of(session: Session, name: str) -> str | None:
    """Return the session of the agent that is connected as a machine."""
    return session.scalar(select(MachineRow.agent).where(MachineRow.name == name))


def agents(session: Session) -> dict[str, str | None]:
    """Return the session of the connected agent, None without one, by machine."""
    return {row.name: row.agent for row in session.execute(select(MachineRow.name, MachineRow.agent))}


def add(
    session: Session, *, name: str, launcher: str, is_own: bool, token_hash: str | None, now: datetime
) -> None:
    """Add a machine that has not been seen yet; the name must be free."""
    row = MachineRow(name=name, launcher=launcher, slots={}, facts={}, labels=[], is_own=is_own)
    row.token_hash, row.joined_at = token_hash, now
    session.add(row)
    session.flush()


def saw(
    session: Session,
    name: str,
    *,
    launcher: str,
    slots: Mapping[str, int],
    facts: Mapping[str, Any],
    trouble: str,
    is_own: bool,
    now: datetime,
) -> None:
    """Store a machine's sign of life; ``is_own`` counts only if it is new."""
    values = {"launcher": launcher, "slots": dict(slots), "facts": dict(facts), "trouble": trouble}
    offer = upsert(session, MachineRow).values(
        name=name, is_own=is_own, labels=[], joined_at=now, seen_at=now, **values
    )
    session.execute(offer.on_conflict_do_update(index_elements=["name"], set_={**values, "seen_at": now}))


def change(session: Session, name: str, **values: object) -> bool:
    """Change columns of a machine; return whether it exists."""
    done = session.execute(
        update(MachineRow).where(MachineRow.name == name).values(**values).returning(MachineRow.name)
    )
    return done.first() is not None


def add_work(session: Session, name: str, seconds: float) -> Machine | None:
    """Add to the time that a machine's GPUs worked, and to what that cost; return it, None if it is not known."""
    cost = MachineRow.cost + seconds / 3600 * MachineRow.price_per_hour
    more = {"busy_s": MachineRow.busy_s + seconds, "cost": cost}
    mine = update(MachineRow).where(MachineRow.name == name).values(**more).returning(MachineRow)
    row = session.scalar(mine, execution_options={"synchronize_session": False, "populate_existing": True})
    return None if row is None else _machine(row)


def prices(session: Session) -> Callable[[str], float]:
    """Return the function from a device to the highest price of an hour on one of its machines, for all its GPUs."""
    priced = [each for each in every(session) if each.price_per_hour > 0]

    def price(device: str) -> float:
        found = (each.price_per_hour for each in priced if each.slots_for(device) > 0)
        return max(found, default=0.0) * split_count(device)[1]

    return price


def remove(session: Session, name: str) -> bool:
    """Delete a machine with its calls; return whether it existed."""
    gone = session.execute(delete(MachineRow).where(MachineRow.name == name).returning(MachineRow.name))
    return gone.first() is not None


@once
def ranking(session: Session) -> dict[int, frozenset[str]]:
    """Return the machines that rank each leaderboard that names some, by its id."""
    found: dict[int, set[str]] = {}
    for row in session.scalars(select(BoardMachineRow)):
        found.setdefault(row.leaderboard_id, set()).add(row.machine)
    return {board_id: frozenset(names) for board_id, names in found.items()}


def set_ranking(session: Session, board_id: int, names: Collection[str]) -> None:
    """Let only these machines rank a leaderboard; without names, all of the operator's do."""
    session.execute(delete(BoardMachineRow).where(BoardMachineRow.leaderboard_id == board_id))
    session.add_all([BoardMachineRow(leaderboard_id=board_id, machine=name) for name in sorted(set(names))])


def _machine(row: MachineRow) -> Machine:
    return made_of(row, Machine)
