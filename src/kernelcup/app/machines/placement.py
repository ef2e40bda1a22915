"""Which machines may judge which jobs.

The owner of a host can forge its reports, and read what the jobs there are given. So hidden cases go only to
machines that the operator vouches for. A leaderboard may name the machines that rank it. If the operator vouches
for one of them, only machines of that kind rank it; if for none, they rank it without hidden cases. Practice runs
anywhere, without hidden cases as soon as one of the machines is lent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kernelcup.app.machines.queries import machines, reservations
from kernelcup.domain import JobKind
from kernelcup.domain.answers import Reservation
from kernelcup.engine import Database, Session
from kernelcup_harness.protocol import JobSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The machines that may judge a job, and whether it keeps its hidden cases there."""

    machines: frozenset[str]
    keeps_hidden: bool

    def confine(self, spec: JobSpec) -> JobSpec:
        """Return the job as it may be given to these machines."""
        if self.keeps_hidden:
            return spec
        return dataclasses.replace(spec, hidden_tests=[], hidden_benchmarks=[], hidden_work=[])


def usable(
    serving: Sequence[machines.Machine], named: Collection[str] | None, *, is_ranked: bool
) -> list[machines.Machine]:
    """Return the machines that may judge a job once they are up and take jobs; arguments as of ``placement``."""
    if not is_ranked:
        return list(serving)
    chosen = [each for each in serving if named is None or each.name in named]
    return [each for each in chosen if each.is_own] or chosen


def placement(
    serving: Sequence[machines.Machine], named: Collection[str] | None, *, is_ranked: bool
) -> Placement:
    """Return where a job goes.

    Args:
        serving: The machines with its device, up or not.
        named: The machines that rank its leaderboard; None for all.
        is_ranked: Whether it ranks, or decides a rank.
    """
    found = usable(serving, named, is_ranked=is_ranked)
    own = [each for each in found if each.is_own]
    # Of ranked jobs, found has only machines of one kind.
    keeps_hidden = bool(own) if is_ranked else len(own) == len(found)
    names = frozenset(each.name for each in found if not each.is_draining)
    return Placement(machines=names, keeps_hidden=keeps_hidden)


class Fleet:
    """The machines of one device, and which leaderboards name some."""

    def __init__(
        self,
        machines: Sequence[machines.Machine],
        named: Mapping[int, frozenset[str]],
        reserved: Sequence[Reservation],
        now: datetime,
    ) -> None:
        self._machines = machines
        self._named = named
        self._reserved = reserved
        self._now = now

    @classmethod
    def read(cls, session: Session, *, launcher: str, device: str, now: datetime) -> Fleet:
        """Read the machines of a launcher that serve a device."""
        found = machines.every(session)
        serving = [each for each in found if each.launcher == launcher and each.slots_for(device) > 0]
        return cls(serving, machines.ranking(session), reservations.since(session, now), now)

    @property
    def reserved(self) -> frozenset[str]:
        """The machines that are reserved now, for whatever leaderboard."""
        return frozenset(each.machine for each in self._reserved if each.keeps_out(None, self._now))

    def place(self, board_id: int, *, is_ranked: bool) -> Placement:
        """Return where a leaderboard's jobs go."""
        found = placement(self._machines, self._named.get(board_id), is_ranked=is_ranked)
        taken = {each.machine for each in self._reserved if each.keeps_out(board_id, self._now)}
        return dataclasses.replace(found, machines=found.machines - taken)

    def full_for(self, kinds: Collection[JobKind], room: Collection[str]) -> list[JobKind]:
        """Return the kinds of jobs that none of the machines with room may judge."""
        return [
            kind
            for kind in kinds
            if not self.place(kind.board_id, is_ranked=kind.is_ranked).machines & set(room)
        ]


def is_lent_only(db: Database, board_id: int, device: str) -> bool:
    """Return whether a leaderboard ranks a device on lent machines, without hidden cases."""
    with db.read() as session:
        serving = [each for each in machines.every(session) if each.slots_for(device) > 0]
        # Only who has lent a machine makes it matter which are named.
        if all(each.is_own for each in serving):
            return False
        named = machines.ranking(session).get(board_id)
    place = placement(serving, named, is_ranked=True)
    return bool(serving) and not place.keeps_hidden
