from __future__ import annotations

import pytest

from builders import NOW, make_board, make_device, make_report, make_spec, make_submission
from fake_fleet import FakeEngine, FakeFleet, dispatcher_of, look
from kernelcup.app.machines import machines
from kernelcup.app.machines.machines import SILENT, MachineState
from kernelcup.app.machines.placement import is_lent_only, placement
from kernelcup.app.machines.queries.machines import Machine
from kernelcup.app.results.standings import standings
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import to_json
from launcher_conformance import report_for

STAGES = to_json(make_report())["stages"]


def machine(name: str, *, own: bool, draining: bool = False) -> Machine:
    return Machine(
        name=name,
        launcher="fake",
        slots={"H100": 1},
        facts={},
        labels=[],
        is_own=own,
        is_draining=draining,
        trouble="",
        joined_at=NOW,
        seen_at=NOW,
        busy_s=0.0,
        cost=0.0,
        price_per_hour=0.0,
    )


OURS, LENT, OTHER = machine("ours", own=True), machine("lent", own=False), machine("other", own=False)


@pytest.mark.parametrize(
    ("serving", "named", "ranked", "expected"),
    [
        ([OURS, LENT], None, True, ({"ours"}, True)),
        ([OURS, LENT], None, False, ({"ours", "lent"}, False)),
        ([OURS], None, False, ({"ours"}, True)),
        ([LENT, OTHER], None, True, ({"lent", "other"}, False)),
        ([OURS, LENT, OTHER], {"lent"}, True, ({"lent"}, False)),
        ([OURS, LENT, OTHER], {"lent", "ours"}, True, ({"ours"}, True)),
        ([OURS, LENT, OTHER], {"lent"}, False, ({"ours", "lent", "other"}, False)),
        ([machine("ours", own=True, draining=True), LENT], None, True, (set(), True)),
        ([], None, True, (set(), False)),
    ],
)
def test_hidden_cases_go_only_to_machines_that_the_operator_vouches_for(
    serving, named, ranked: bool, expected
) -> None:
    found = placement(serving, named, is_ranked=ranked)
    assert (found.machines, found.keeps_hidden) == expected


def test_a_confined_job_has_no_hidden_cases() -> None:
    spec = make_spec(hidden_tests=[{"size": 1}], hidden_benchmarks=[{"size": 2}])
    lent = placement([LENT], None, is_ranked=True).confine(spec)
    assert (lent.hidden_tests, lent.hidden_benchmarks, lent.tests) == ([], [], spec.tests)
    assert placement([OURS], None, is_ranked=True).confine(spec) == spec


class Stage:
    """A leaderboard, an engine with two machines, and its dispatcher."""

    def __init__(self, db, clock) -> None:
        self.db, self.clock = db, clock
        self.engine = FakeEngine()
        self.board = make_board(db, devices=["H100"])
        self.dispatcher = dispatcher_of(db, clock, FakeFleet(self.engine), make_device(slots=4))

    def look(self) -> None:
        look(self.dispatcher)

    def finish(self) -> None:
        for name, call in list(self.engine.calls.items()):
            self.engine.report(name, report_for(call.order, stages=STAGES))
        self.look()

    def machine(self, name: str):
        return next(each for each in machines.list_machines(self.db, now=self.clock()) if each.name == name)


@pytest.fixture
def stage(db, clock) -> Stage:
    return Stage(db, clock)


def test_machines_of_a_launcher_are_listed_and_lent_until_the_operator_vouches(stage: Stage) -> None:
    stage.look()
    assert [(each.name, each.is_own, each.state) for each in machines.list_machines(stage.db, now=NOW)] == [
        ("m1", False, MachineState.UP),
        ("m2", False, MachineState.UP),
    ]
    machines.change(stage.db, "m1", is_own=True, now=NOW)
    stage.look()
    assert stage.machine("m1").is_own


def test_a_result_of_a_lent_machine_says_so_in_the_standings(stage: Stage) -> None:
    make_submission(stage.db, devices=["H100"])
    stage.look()
    assert is_lent_only(stage.db, stage.board.id, "H100")
    stage.finish()
    (place,) = standings(stage.db, stage.board.name, "H100")
    assert place.lent
    assert stage.machine("m1").busy_s >= 0


def test_a_result_of_the_operators_machine_is_not_marked(stage: Stage) -> None:
    stage.look()
    for name in ("m1", "m2"):
        machines.change(stage.db, name, is_own=True, now=NOW)
    make_submission(stage.db, devices=["H100"])
    stage.look()
    stage.finish()
    (place,) = standings(stage.db, stage.board.name, "H100")
    assert not place.lent
    assert not is_lent_only(stage.db, stage.board.id, "H100")


def test_ranked_jobs_wait_for_the_machines_that_rank_their_leaderboard(stage: Stage) -> None:
    stage.look()
    machines.change(stage.db, "m2", is_own=True, now=NOW)
    machines.set_ranking(stage.db, stage.board.name, ["m2"], now=NOW)
    submissions = [make_submission(stage.db, devices=["H100"], user=user) for user in ("ada", "bob")]
    machines.change(stage.db, "m2", is_draining=True, now=NOW)
    stage.look()
    assert stage.engine.calls == {}
    machines.change(stage.db, "m2", is_draining=False, now=NOW)
    stage.look()
    assert {call.order.machines for call in stage.engine.calls.values()} == {frozenset({"m2"})}
    assert all(show_submission(stage.db, each.id).jobs[0].attempt == 1 for each in submissions)


def test_a_machine_that_is_silent_is_down(stage: Stage) -> None:
    stage.look()
    stage.clock.advance(SILENT.total_seconds() + 1)
    assert stage.machine("m1").state is MachineState.DOWN


def test_a_machine_that_is_not_there_cannot_rank(stage: Stage) -> None:
    with pytest.raises(NotFound, match="no machine 'm9'"):
        machines.set_ranking(stage.db, stage.board.name, ["m9"], now=NOW)
