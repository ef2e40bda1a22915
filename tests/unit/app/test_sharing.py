"""Jobs that take several GPUs of one host, beside those that take one."""

from __future__ import annotations

from collections import Counter

import pytest

from builders import make_board, make_device, make_submission
from fake_fleet import FakeEngine, FakeFleet, dispatcher_of, look
from kernelcup.app.queue.queries import claims
from kernelcup.domain import grouped, slots_for, split_count
from kernelcup_harness.protocol import Mode
from launcher_conformance import report_for

SINGLE, PAIR = make_device(slots=8), make_device(name="H100x2", slots=4)


class Stage:
    """Hosts of two GPUs each, and a board that takes one or both."""

    def __init__(self, db, clock, hosts: int) -> None:
        self.db, self.clock = db, clock
        self.engine = FakeEngine({f"m{number}": 2 for number in range(1, hosts + 1)})
        make_board(db, devices=["H100", "H100x2"])
        self.dispatcher = dispatcher_of(db, clock, FakeFleet(self.engine), SINGLE, PAIR)
        self.users = 0
        self.ended: list[str] = []

    def send(self, device: str, count: int = 1, mode: Mode = Mode.LEADERBOARD) -> None:
        for _ in range(count):
            self.users += 1
            make_submission(self.db, devices=[device], user=f"user{self.users}", mode=mode, now=self.clock())

    def look(self) -> None:
        look(self.dispatcher)

    def finish(self, machine: str) -> None:
        """End the oldest job on a machine."""
        running = [name for name, call in self.engine.calls.items() if call.machine == machine]
        call = self.engine.calls[running[0]]
        self.ended.append(call.order.device.name)
        self.engine.report(running[0], report_for(call.order))
        self.look()

    @property
    def running(self) -> Counter[str]:
        return Counter(f"{call.order.device.name} on {call.machine}" for call in self.engine.calls.values())


@pytest.fixture
def stage(db, clock) -> Stage:
    stage = Stage(db, clock, hosts=2)
    stage.look()
    return stage


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("H200x2", ("H200", 2)),
        ("L4x4", ("L4", 4)),
        ("RTX4090x8", ("RTX4090", 8)),
        ("H100", ("H100", 1)),
        ("MI300X", ("MI300X", 1)),
        ("H100x1", ("H100x1", 1)),
        ("H100x02", ("H100x02", 1)),
        ("gfx942", ("gfx942", 1)),
        ("x2", ("x2", 1)),
    ],
)
def test_a_device_names_how_many_gpus_a_job_takes(name: str, expected: tuple[str, int]) -> None:
    assert split_count(name) == expected


def test_groups_of_gpus_do_not_overlap() -> None:
    assert grouped(["0", "1", "2", "3", "4"], 2) == ["0,1", "2,3"]
    assert (slots_for({"H200": 8}, "H200x2"), slots_for({"H200x2": 1}, "H200")) == (4, 0)


def test_a_job_for_two_gpus_takes_both_of_one_host(stage: Stage) -> None:
    stage.send("H100x2")
    stage.send("H100", 3)
    stage.look()
    assert sorted(stage.running.values()) == [1, 2]
    assert sum(name.startswith("H100x2") for name in stage.running) == 1


def test_a_host_is_held_for_a_waiting_job_that_needs_all_of_it(stage: Stage) -> None:
    stage.send("H100", 4)
    stage.look()
    stage.send("H100x2")
    stage.send("H100", 20)
    stage.finish("m2")
    assert stage.running["H100 on m2"] == 1  # the free GPU stays free
    stage.finish("m1")
    assert stage.running["H100 on m1"] == 2  # the other host goes on with single jobs
    stage.finish("m2")
    assert stage.running["H100x2 on m2"] == 1


def test_neither_kind_starves_the_other_on_one_host(db, clock) -> None:
    stage = Stage(db, clock, hosts=1)
    stage.look()
    stage.send("H100x2", 8)
    stage.send("H100", 8)
    stage.look()
    while stage.engine.calls:
        stage.finish("m1")
    begun = stage.ended
    assert Counter(begun) == {"H100": 8, "H100x2": 8}
    assert {"H100", "H100x2"} <= set(begun[:6])
    assert {"H100", "H100x2"} <= set(begun[-10:])


def test_no_host_is_held_for_practice_while_ranked_jobs_wait(stage: Stage) -> None:
    stage.send("H100", 4)
    stage.look()
    stage.send("H100x2", mode=Mode.TEST)
    stage.send("H100", 2)
    stage.finish("m1")
    stage.finish("m2")
    assert stage.running == {"H100 on m1": 2, "H100 on m2": 2}
    with stage.db.read() as session:
        assert claims.has_waiting(session, device="H100x2")
