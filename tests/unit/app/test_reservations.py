"""Machines that are reserved for a leaderboard, or under maintenance; what participants are told."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from builders import NOW, make_board, make_device, make_submission
from fake_fleet import FakeEngine, FakeFleet, dispatcher_of, look
from fakes import FakeLauncher
from kernelcup.app.machines import agents, machines, reservations
from kernelcup.app.machines.machines import MachineState
from kernelcup.app.machines.queries import machines as storage_machines
from kernelcup.app.people import audit_log
from kernelcup.app.queue.estimates import waiting_of
from kernelcup.app.status import read_status
from kernelcup.domain import OPERATOR
from kernelcup.errors import InvalidValue, NotFound
from kernelcup_harness.protocol import Mode
from launcher_conformance import report_for

HOUR = timedelta(hours=1)


class Stage:
    """Two leaderboards that want the same two machines."""

    def __init__(self, db, clock, launcher=None) -> None:
        self.db, self.clock = db, clock
        self.engine = FakeEngine({"m1": 1, "m2": 1})
        for name in ("final", "other"):
            make_board(db, name=name, devices=["H100"])
        launcher = launcher or FakeFleet(self.engine)
        self.dispatcher = dispatcher_of(db, clock, launcher, make_device(slots=2))
        self.look()
        self.users = 0

    def send(self, board: str, mode: Mode = Mode.LEADERBOARD) -> int:
        self.users += 1
        return make_submission(
            self.db, board=board, devices=["H100"], user=f"u{self.users}", mode=mode, now=self.clock()
        ).id

    def look(self) -> None:
        look(self.dispatcher)

    def reserve(self, *names: str, board: str | None = "final", reason: str = "") -> list[int]:
        end = self.clock() + HOUR
        now = self.clock()
        return reservations.reserve(
            self.db, names, board=board, begins_at=now, ends_at=end, reason=reason, now=now
        )

    def reason(self, submission_id: int) -> str:
        (found,) = waiting_of(self.db, submission_id, self.clock()).values()
        return found.reason

    @property
    def places(self) -> list[str]:
        return sorted(call.machine for call in self.engine.calls.values())


@pytest.fixture
def stage(db, clock) -> Stage:
    return Stage(db, clock)


@pytest.mark.parametrize("mode", [Mode.LEADERBOARD, Mode.TEST])
def test_a_reserved_machine_judges_for_its_leaderboard_only(stage: Stage, mode: Mode) -> None:
    stage.reserve("m1")
    for _ in range(2):
        stage.send("other", mode)
    stage.look()
    assert stage.places == ["m2"]
    stage.send("final", mode)
    stage.look()
    assert stage.places == ["m1", "m2"]


def test_a_participant_is_told_until_when_every_machine_is_reserved(stage: Stage) -> None:
    stage.reserve("m1", "m2", reason="the final")
    outside, inside = stage.send("other"), stage.send("final")
    assert stage.reason(outside) == "H100 is reserved for another leaderboard until 13:00 UTC: the final"
    assert stage.reason(inside) == "next to start"  # leaderboards take turns
    stage.clock.advance(HOUR.total_seconds() + 1)
    stage.look()
    assert stage.places == ["m1", "m2"]


def test_maintenance_keeps_all_jobs_off_and_can_be_ended_early(stage: Stage) -> None:
    numbers = stage.reserve("m1", "m2", board=None, reason="new driver")
    waiting = stage.send("final")
    stage.look()
    assert stage.reason(waiting) == "H100 is under maintenance until 13:00 UTC: new driver"
    for number in numbers:
        reservations.cancel(stage.db, number, now=stage.clock())
    stage.look()
    assert len(stage.places) == 1


def test_a_running_job_ends_before_maintenance(stage: Stage) -> None:
    stage.send("final")
    stage.look()
    stage.reserve("m1", "m2", board=None)
    ((name, call),) = stage.engine.calls.items()
    stage.engine.report(name, report_for(call.order))
    stage.look()
    assert stage.engine.calls == {}


def test_this_machine_can_be_reserved_too(db, clock) -> None:
    launcher = FakeLauncher()
    stage = Stage(db, clock, launcher)
    stage.reserve("fake")
    stage.send("other")
    stage.look()
    assert launcher.specs == []
    stage.send("final")
    stage.look()
    assert len(launcher.specs) == 1


def test_participants_are_told_since_when_no_machine_is_up(stage: Stage) -> None:
    waiting = stage.send("final")
    stage.engine.machines.clear()
    stage.clock.advance(61)
    stage.look()
    assert stage.reason(waiting) == "no H100 is up since 12:00 UTC"
    stage.clock.advance(24 * 3600)
    stage.look()
    assert stage.reason(waiting).startswith("no H100 is up since 20")


def test_a_ranked_job_says_that_only_machines_which_may_not_rank_it_are_up(stage: Stage) -> None:
    machines.change(stage.db, "m1", is_own=True, now=NOW)
    del stage.engine.machines["m1"]
    stage.clock.advance(61)
    stage.look()
    ranked, practice = stage.send("final"), stage.send("other", Mode.TEST)
    (found,) = waiting_of(stage.db, ranked, stage.clock()).values()
    assert found.reason == "no H100 that may rank this leaderboard is up since 12:00 UTC"
    assert found.starts_in_s is None
    assert stage.reason(practice) == "1 job is ahead"
    machines.add_agent(stage.db, "without-gpu", now=NOW)
    machines.set_ranking(stage.db, "final", ["without-gpu"], now=NOW)
    assert stage.reason(ranked) == "none of the machines that rank this leaderboard has H100"


def test_an_agent_that_leaves_is_down_at_once_and_its_time_is_known(db, clock) -> None:
    machines.add_agent(db, "lab", now=NOW)
    agents.connect(db, "lab", agent="a", slots={"H100": 1}, facts={}, now=NOW)
    (found,) = machines.list_machines(db, now=NOW)
    assert found.state is MachineState.UP
    agents.disconnect(db, "lab", agent="a", now=NOW)
    (found,) = machines.list_machines(db, now=NOW)
    assert (found.state, found.seen_at) == (MachineState.DOWN, NOW)


def test_a_machines_log_has_its_troubles_and_a_drifted_class(db) -> None:
    machines.add_agent(db, "lab", now=NOW)
    for driver in ("550", "550", "580"):
        facts = {"gpus": ["H100"], "driver": driver, "cores": 8, "memory_gib": 64}
        agents.connect(db, "lab", agent="a", slots={"H100": 1}, facts=facts, now=NOW)
    with db.read() as session:
        machine = storage_machines.find(session, "lab")
    for trouble in ("GPU 0 is lost", "GPU 0 is lost"):
        agents.take_news(db, machine, agent="a", events={}, trouble=trouble, now=NOW)
        machine = dataclasses.replace(machine, trouble=trouble)
    found = audit_log.entries(db, OPERATOR, target="machine:lab")
    assert [each.action for each in found] == ["machine.trouble", "machine.class", "machine.add"]
    assert found[1].detail == {
        "was": "1 x H100; driver 550; 8 cores, 64 GiB",
        "is": "1 x H100; driver 580; 8 cores, 64 GiB",
    }


def test_the_status_announces_what_is_to_come_without_names(stage: Stage) -> None:
    begins, ends = NOW + 24 * HOUR, NOW + 26 * HOUR
    reservations.reserve(
        stage.db, ["m1", "m2"], board="final", begins_at=begins, ends_at=ends, reason="finals", now=NOW
    )
    stage.reserve("m1", board=None)
    now_, later = read_status(stage.db, [], NOW).notices
    assert (now_.machines, now_.is_maintenance, now_.devices) == (1, True, ("H100",))
    assert (later.machines, later.begins_at, later.reason) == (2, begins, "finals")


@pytest.mark.parametrize(
    ("names", "board", "hours", "error", "words"),
    [
        ([], None, 1, InvalidValue, "Name a machine"),
        (["m9"], None, 1, NotFound, "no machine 'm9'"),
        (["m1"], "nothing", 1, NotFound, "no leaderboard"),
        (["m1"], None, -1, InvalidValue, "no time left"),
    ],
)
def test_a_reservation_that_makes_no_sense_is_refused(
    stage: Stage, names: list[str], board: str | None, hours: int, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        reservations.reserve(stage.db, names, board=board, begins_at=NOW, ends_at=NOW + hours * HOUR, now=NOW)
