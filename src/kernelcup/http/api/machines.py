"""Routes for the machines that judge. For admins."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, Field

from kernelcup.app.machines import agreement, machines, reservations
from kernelcup.http.api.forms import Form, Moment, Shown
from kernelcup.http.dependencies import ActorDep, Db, Now, Number
from kernelcup.http.route import ApiRoute

router = APIRouter(tags=["machines"], route_class=ApiRoute)


class MachineOut(Shown):
    """A machine that judges."""

    name: str
    launcher: str
    state: machines.MachineState
    host_class: str
    slots: dict[str, int]
    is_own: bool = Field(description="Whether the operator vouches for it; others never get hidden cases.")
    is_draining: bool
    running: list[int] = Field(description="The jobs that it judges now.")
    trouble: str
    busy_s: float
    cost: float
    ranks: list[str]
    seen_at: datetime | None


class MachineIn(Form):
    """A machine whose agent will connect."""

    name: str = Field(max_length=200)
    is_own: bool = False


class NewMachineOut(BaseModel):
    """The token of a new machine's agent, shown once."""

    name: str
    token: str


class MachineChange(Form):
    """What to change of a machine."""

    is_own: bool | None = None
    is_draining: bool | None = None
    price_per_hour: float | None = None


class RankingIn(Form):
    """The machines that rank a leaderboard; none for all."""

    machines: list[str] = Field(max_length=1000)


class ReservationOut(Shown):
    """A time at which a machine judges for one leaderboard only, or for none."""

    id: int
    machine: str
    board: str | None = Field(description="Null for maintenance.")
    begins_at: datetime
    ends_at: datetime
    reason: str


class ReservationIn(Form):
    """Machines to reserve for a leaderboard, or for maintenance without one."""

    machines: list[str] = Field(max_length=1000)
    board: str | None = None
    begins_at: Moment
    ends_at: Moment
    reason: str = Field(default="", max_length=500)


class CompareIn(Form):
    """The machine to compare with."""

    other: str = Field(max_length=200)
    device: str | None = None


class ComparisonOut(Shown):
    """What two machines say of the same work."""

    device: str
    first_class: str
    second_class: str
    pairs: int = Field(description="Submissions that both have judged.")
    disagree: list[int] = Field(description="Those whose intervals do not overlap.")
    ratio: float | None = Field(description="Median of the second one's times by the first one's.")
    canaries_ns: list[float]
    canaries_agree: bool | None
    agrees: bool | None = Field(description="Null if there is too little to say.")


class Done(BaseModel):
    """A change that was made."""

    name: str


@router.get("/machines")
def list_machines(db: Db, actor: ActorDep, now: Now) -> list[MachineOut]:
    """List the machines."""
    return [MachineOut.of(each) for each in machines.list_machines(db, actor, now=now)]


@router.post("/machines", status_code=201)
def add_machine(body: MachineIn, db: Db, actor: ActorDep, now: Now) -> NewMachineOut:
    """Register a machine whose agent will connect, and create the agent's token."""
    token = machines.add_agent(db, body.name, is_own=body.is_own, actor=actor, now=now)
    return NewMachineOut(name=body.name, token=token)


@router.patch("/machines/{name}")
def change_machine(name: str, body: MachineChange, db: Db, actor: ActorDep, now: Now) -> Done:
    """Drain or resume a machine, vouch for it, or set its price."""
    machines.change(db, name, actor=actor, now=now, **body.model_dump())
    return Done(name=name)


@router.delete("/machines/{name}")
def remove_machine(name: str, db: Db, actor: ActorDep, now: Now) -> Done:
    """Forget a machine; its agent's token is void, and its jobs run again elsewhere."""
    machines.remove(db, name, actor=actor, now=now)
    return Done(name=name)


@router.put("/leaderboards/{name}/machines")
def rank_by(name: str, body: RankingIn, db: Db, actor: ActorDep, now: Now) -> Done:
    """Let only these machines rank a leaderboard."""
    machines.set_ranking(db, name, body.machines, actor=actor, now=now)
    return Done(name=name)


@router.get("/reservations")
def list_reservations(db: Db, actor: ActorDep, now: Now) -> list[ReservationOut]:
    """List the reservations of machines that have not ended."""
    found = reservations.list_reservations(db, actor, now=now)
    return [ReservationOut.of(each) for each in found]


@router.post("/reservations", status_code=201)
def reserve(body: ReservationIn, db: Db, actor: ActorDep, now: Now) -> list[int]:
    """Reserve machines for a leaderboard, or for maintenance; return the number of each reservation."""
    return reservations.reserve(
        db,
        body.machines,
        board=body.board,
        begins_at=body.begins_at,
        ends_at=body.ends_at,
        reason=body.reason,
        actor=actor,
        now=now,
    )


@router.delete("/reservations/{reservation_id}")
def release(reservation_id: Number, db: Db, actor: ActorDep, now: Now) -> Done:
    """End a reservation, or one that is to come."""
    reservations.cancel(db, reservation_id, actor=actor, now=now)
    return Done(name=str(reservation_id))


@router.post("/machines/{name}/compare")
def compare(name: str, body: CompareIn, db: Db, actor: ActorDep, now: Now) -> ComparisonOut:
    """Compare a machine with another one, and store whether their classes agree."""
    found = agreement.compare(db, name, body.other, device=body.device, actor=actor, now=now)
    return ComparisonOut.of(found)
