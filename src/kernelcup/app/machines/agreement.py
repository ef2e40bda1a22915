"""Whether two machines give the same times: by their canaries, and by submissions that both have judged.

Results of several classes of machines rank together only where this was shown for each two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.queries import boards
from kernelcup.app.machines.machines import host_class
from kernelcup.app.machines.queries import agreements, calibrations, machines
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.results.queries import runs
from kernelcup.domain import OPERATOR, Actor, Role, Scope, split_count
from kernelcup.engine import Database, Session
from kernelcup.errors import InvalidValue, NotFound

FEWEST_PAIRS = 3
"""With fewer submissions that both have judged, nothing is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What two machines say of the same work."""

    device: str
    first_class: str
    second_class: str
    pairs: int
    """Submissions that both have judged."""
    disagree: list[int]
    """Those whose intervals do not overlap."""
    ratio: float | None
    """The median of the second machine's times by the first one's; None without a pair."""
    canaries_ns: list[float]
    """The median canary of those that have one."""
    canaries_agree: bool | None
    """None unless both have canaries."""

    @property
    def agrees(self) -> bool | None:
        """Whether they agree; None if there is too little to say."""
        if self.disagree or self.canaries_agree is False:
            return False
        return True if self.pairs >= FEWEST_PAIRS else None


@operation("POST", "/machines/{name}/compare", "admin machines compare", subject="machines")
def compare(
    db: Database,
    name: Annotated[str, Given(metavar="MACHINE", help="Name of a machine.")],
    other: Annotated[str, Given(metavar="OTHER", help="Name of the other one.")],
    *,
    device: Annotated[
        str | None, Given(options=("--device",), help="The device; default: the one that both have.")
    ] = None,
    actor: Actor = OPERATOR,
    now: datetime,
) -> Comparison:
    """Say whether two machines give the same times, by canaries and by submissions that both have judged.

    Until their classes agree, a leaderboard with times of both has a ranking for each.

    Raises:
        NotFound: There is no such machine.
        InvalidValue: They have no device, or several, in common and none was named.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.write(durable=True) as session:
        one, two = machines.find(session, name), machines.find(session, other)
        if one is None or two is None:
            raise NotFound(f"There is no machine {name if one is None else other!r}.")
        common = sorted(set(one.slots) & set(two.slots))
        chosen = device or (common[0] if len(common) == 1 else None)
        if chosen is None or split_count(chosen)[0] not in {split_count(each)[0] for each in common}:
            raise InvalidValue(f"Name a device that both have: {', '.join(common) or 'there is none'}.")
        pairs = agreements.pairs(session, name, other, device=chosen)
        canaries = [
            calibrations.canary_of(session, machine=machine, device=chosen) for machine in (name, other)
        ]
        known = [each for each in canaries if each is not None]
        ratios = sorted(each.second[0] / each.first[0] for each in pairs)
        result = Comparison(
            device=chosen,
            first_class=host_class(one),
            second_class=host_class(two),
            pairs=len(pairs),
            disagree=[each.submission_id for each in pairs if not each.agrees],
            ratio=ratios[len(ratios) // 2] if ratios else None,
            canaries_ns=[each.median_ns for each in known],
            canaries_agree=known[0].agrees_with(known[1]) if len(known) == 2 else None,
        )
        if result.agrees is not None and result.first_class != result.second_class:
            classes = (result.first_class, result.second_class)
            before = agreements.groups(session)
            agreements.put(session, classes, device=chosen, agrees=result.agrees, now=now)
            if agreements.groups(session) != before:
                _rank_again(session, chosen, now)
            detail = {"with": other, "device": chosen, "agrees": result.agrees}
            audit_log.record(session, actor, "machine.compare", f"machine:{name}", detail, now)
    return result


def _rank_again(session: Session, device: str, now: datetime) -> None:
    """Join or split the rankings of a device."""
    for board in sorted(boards.every(session), key=lambda each: each.name):
        if device in board.devices:
            boards.lock(session, board.name)
            runs.choose_all(session, board_id=board.id, now=now)
