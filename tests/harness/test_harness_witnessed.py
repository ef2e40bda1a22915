"""Whole jobs whose times are the witness's: the start gun only checks them."""

from __future__ import annotations

import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_device import FakeSampler, Locked
from fake_room import CALL_NS, EMPTY_NS, FakeEngine, FakeHands, judged_in_room
from harness_runs import HONEST, REPLAYED, replayed
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import cases, duel_of, room_of

from kernelcup_harness.clocks.replay import match, replays, timed_replays, witnessed
from kernelcup_harness.clocks.sampling import CHECKING_SAMPLES
from kernelcup_harness.clocks.trace import SPAN_NS
from kernelcup_harness.core.answer import Forged
from kernelcup_harness.core.check import Checks
from kernelcup_harness.protocol import (
    Audit,
    CaseResult,
    Reason,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.protocol.results import trimmed_mean
from kernelcup_harness.window.reasons import DeviceError, NoCounters, StampForged, WhyNot
from properties import examples

SEEN_NS = CALL_NS - SPAN_NS
VERIFIED = 4
"""Calls that are made while the contestant is still there."""


def judged(
    folder: Path,
    engine: type[FakeEngine] = FakeEngine,
    sampler: type[FakeSampler] | None = FakeSampler,
    hands: type[FakeHands] = FakeHands,
    **changes: Any,
) -> tuple[list[dict[str, Any]], Any]:
    return judged_in_room(replayed(**changes), folder, engine=engine, sampler=sampler, hands=hands)


def ended(events: list[dict[str, Any]]) -> tuple[str, str, str]:
    """How the ranked stage ended: verdict, reason and message."""
    (end,) = [each for each in events if each["type"] == "stage_end" and each["name"] == "ranked"]
    return end["verdict"], end["reason"], end["message"]


def accepted(events: list[dict[str, Any]]) -> CaseResult:
    (case,) = cases(events)
    assert (case.verdict, case.message) == (Verdict.ACCEPTED, "")
    return case


def fired(shared: Any) -> int:
    return sum(entry[0] == "fire" for entry in shared.log)


def test_times_of_the_witness_rank(tmp_path: Path) -> None:
    events, shared = judged(tmp_path)

    timing = accepted(events).timing
    assert timing.audit.level is TrustLevel.WITNESSED
    assert timing.audit.findings == []
    assert timing.score_ns == pytest.approx(SEEN_NS, abs=2)
    assert timing.samples_ns == pytest.approx([SEEN_NS] * len(timing.samples_ns), abs=2)
    assert len(timing.samples_ns) >= REPLAYED.min_samples
    assert timing.gun_ns == [CALL_NS] * len(timing.gun_ns)
    assert len(timing.gun_ns) >= CHECKING_SAMPLES
    assert room_of(events) == {"replayed": True, "left_out": ["a priority of kernel f"], "witnessed": True}
    assert [entry[0] for entry in shared.log].count("launch") == len(timing.samples_ns)


def test_each_watched_call_has_an_input_of_its_own_and_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    real = Checks.make_input

    def noted(self: Checks, place: Any, sample: Any) -> Any:
        made.append(("input", sample.input, sample.twin))
        return real(self, place, sample)

    monkeypatch.setattr(Checks, "make_input", noted)
    events, shared = judged(tmp_path)

    case = accepted(events)
    assert case.checks == fired(shared) + len(case.timing.samples_ns)
    own = {each[1] for each in made if each[1] < 1 << 20}
    assert len(own) >= len(case.timing.samples_ns) + len(case.timing.gun_ns)


def test_all_cases_of_a_job_are_watched(tmp_path: Path) -> None:
    sizes = [{"size": 100, "seed": 1}, {"size": 7_000, "seed": 2}]
    events, _ = judged(tmp_path, benchmarks=sizes)

    for case in cases(events):
        assert case.timing.audit.level is TrustLevel.WITNESSED


class Late(FakeEngine):
    """Is busy with a call for longer than its start gun says."""

    longer_ns = 0

    def shows_ns(self, group: int) -> int:
        return super().shows_ns(group) + self.longer_ns


def disagreeing(longer_ns: int) -> type[FakeEngine]:
    """An engine whose calls keep the device busy for so much longer than the gun says."""
    return type("Disagreeing", (Late,), {"longer_ns": longer_ns})


@pytest.mark.parametrize("longer_ns", [2_000, 90_000])
def test_a_gun_that_disagrees_with_the_witness_was_forged(tmp_path: Path, longer_ns: int) -> None:
    events, _ = judged(tmp_path, disagreeing(longer_ns))

    verdict, reason, message = ended(events)
    assert (verdict, reason) == (Verdict.REJECTED, Reason.FORGED_TIME)
    assert f"by the hardware's counters a call takes {(SEEN_NS + longer_ns) / 1e3:.2f} us" in message
    assert f"by the clock {CALL_NS / 1e3:.2f} us" in message
    assert cases(events) == []


@pytest.mark.parametrize("longer_ns", [400, -1_500, 900])
def test_a_gun_that_agrees_or_is_a_little_quicker_changes_nothing(tmp_path: Path, longer_ns: int) -> None:
    """It is, with waves of blocks."""
    events, _ = judged(tmp_path, disagreeing(longer_ns))

    timing = accepted(events).timing
    assert timing.score_ns == pytest.approx(SEEN_NS + longer_ns, abs=2)
    assert not [each for each in timing.audit.findings if each.quarantines]


def test_a_witness_that_says_less_than_the_gun_makes_no_time_shorter(tmp_path: Path) -> None:
    events, _ = judged(tmp_path, disagreeing(-2_200))

    timing = accepted(events).timing
    assert (timing.score_ns, timing.audit.level) == (CALL_NS, TrustLevel.REPLAYED)
    assert [each.code for each in timing.audit.findings] == ["witness_shorter"]


def firing(says: Any) -> type[FakeEngine]:
    """An engine whose gun says something else once the contestant is gone."""

    class Fires(FakeEngine):
        def fire(self, group: int, place: int) -> int | None:
            honest = super().fire(group, place)
            return says if fired(self._shared) > VERIFIED + 2 else honest

    return Fires


@pytest.mark.parametrize(
    ("says", "sampler"), [(-5_000, None), (EMPTY_NS - 1_600, FakeSampler), (10**12, None)]
)
def test_times_that_are_impossible_were_forged(tmp_path: Path, says: int, sampler: Any) -> None:
    events, _ = judged(tmp_path, firing(says), sampler)

    verdict, reason, message = ended(events)
    assert (verdict, reason) == (Verdict.REJECTED, Reason.FORGED_TIME)
    assert f"{says} ns of a call of " in message


def test_a_call_may_be_as_short_as_an_empty_graph(tmp_path: Path) -> None:
    events, _ = judged(tmp_path, type("Short", (FakeEngine,), {"lasts_ns": 0}), None)

    timing = accepted(events).timing
    assert timing.score_ns == timed_replays.LEAST_NS


class Rewritten(FakeEngine):
    def check(self) -> None:
        raise StampForged("an end time was written again after it had been read")


def test_an_end_time_that_was_written_again_was_forged(tmp_path: Path) -> None:
    events, _ = judged(tmp_path, Rewritten)

    assert ended(events)[:2] == (Verdict.REJECTED, Reason.FORGED_TIME)


class Haunted(FakeEngine):
    """Shares the device with another program in its first watches."""

    watches = 0
    seen = 0

    def watched(self, group: int, place: int) -> None:
        super().watched(group, place)
        if self.seen < self.watches:
            self._shared.gpu.haunted = True
        self.seen += 1


def test_after_three_unreadable_watches_in_a_row_the_gun_times_a_result_that_is_held(tmp_path: Path) -> None:
    events, shared = judged(tmp_path, type("Always", (Haunted,), {"watches": 1_000}))

    timing = accepted(events).timing
    assert (timing.audit.level, timing.score_ns) == (TrustLevel.REPLAYED, CALL_NS)
    assert {"unreadable", "not_witnessed"} <= {
        each.code for each in timing.audit.findings if each.quarantines
    }
    launches = [entry[0] for entry in shared.log].count("launch")
    assert launches == 3 * timed_replays.MOST_ROUNDS


def test_a_watch_that_another_program_disturbs_is_made_again(tmp_path: Path) -> None:
    events, shared = judged(tmp_path, type("Once", (Haunted,), {"watches": timed_replays.MOST_ROUNDS}))

    timing = accepted(events).timing
    assert timing.score_ns == pytest.approx(SEEN_NS, abs=2)
    assert [entry[0] for entry in shared.log].count("launch") == len(
        timing.samples_ns
    ) + timed_replays.MOST_ROUNDS


def test_without_counters_calls_are_replayed_and_the_report_says_why(tmp_path: Path) -> None:
    events, shared = judged(tmp_path, sampler=Locked)

    timing = accepted(events).timing
    assert (timing.audit.level, timing.score_ns) == (TrustLevel.REPLAYED, CALL_NS)
    assert timing.gun_ns == []
    found = room_of(events)
    assert (found["replayed"], found["witnessed"]) == (True, False)
    assert "INSUFFICIENT_PRIVILEGES" in found["not_witnessed"]
    assert not [entry for entry in shared.log if entry[0] == "launch"]


class Blind(FakeSampler):
    """Loses its counters when the first watch is read."""

    def read(self) -> Any:
        super().read()
        raise NoCounters("samples were lost: the watch was too long")


def test_a_result_without_counters_that_were_there_before_is_held(tmp_path: Path) -> None:
    events, _ = judged(tmp_path, sampler=Blind)

    audit = accepted(events).timing.audit
    assert "unreadable" in {each.code for each in audit.findings if each.quarantines}


class CannotExport(FakeHands):
    """Has a capture that cannot be exported, for a reason that the submission has chosen."""

    def export(self) -> tuple[bytes, WhyNot | None]:
        return b"", WhyNot.NO_TIMER


@pytest.mark.parametrize(("sampler", "held"), [(FakeSampler, True), (Locked, False)])
def test_a_submission_that_is_not_replayed_is_held_where_there_is_a_witness(
    tmp_path: Path, sampler: type[FakeSampler], held: bool
) -> None:
    events, _ = judged(tmp_path, sampler=sampler, hands=CannotExport)

    audit = accepted(events).timing.audit
    assert [(each.code, each.quarantines) for each in audit.findings] == [("not_replayed", held)]


# Calls that were not ready in time


def being_late(numbers: set[int]) -> type[FakeEngine]:
    """An engine where some of the calls that follow the contestant's end are not ready in time, by number."""

    class IsLate(FakeEngine):
        def fire(self, group: int, place: int) -> int | None:
            honest = super().fire(group, place)
            return None if fired(self._shared) - VERIFIED - 1 in numbers else honest

    return IsLate


def inputs_of_ranked_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the inputs that are made for single calls."""
    made: list[int] = []
    real = replays.Replays._laid

    def noted(self: Any, case: Any, at: int, sample: Any) -> Any:
        made.append(-1 if sample.twin else sample.input)
        return real(self, case, at, sample)

    monkeypatch.setattr(replays.Replays, "_laid", noted)
    return made


def test_a_late_call_is_made_again_with_an_input_that_it_has_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = inputs_of_ranked_calls(monkeypatch)
    events, _ = judged(tmp_path, being_late({5, 6}), None)

    case = accepted(events)
    assert set(case.timing.samples_ns) == {float(EMPTY_NS + CALL_NS)}
    late, again, again_late = made[VERIFIED + 5 : VERIFIED + 8]
    before = made[: VERIFIED + 5]
    assert len({late, again, again_late}) == 3
    assert not {again, again_late} & {*before, late, -1}


def test_the_answer_of_a_late_call_is_checked(tmp_path: Path) -> None:
    class WrongIfLate(FakeEngine):
        def fire(self, group: int, place: int) -> int | None:
            self._shared.log.append(("fire", group, place))
            if fired(self._shared) > VERIFIED + 5:
                # The pattern stays where the answer is due.
                return None
            self._run(group, place)
            return EMPTY_NS + self.lasts_ns

    events, _ = judged(tmp_path, WrongIfLate, None)

    (case,) = cases(events)
    assert case.verdict is Verdict.WRONG_ANSWER


def test_three_late_calls_of_a_case_are_the_machines_error(tmp_path: Path) -> None:
    events, shared = judged(tmp_path, being_late({2, 7, 9}), None)

    assert ended(events)[:2] == (Verdict.INTERNAL_ERROR, Reason.MACHINE)
    assert fired(shared) == VERIFIED + 10


def test_late_calls_are_counted_case_by_case(tmp_path: Path) -> None:
    class LateTwice(FakeEngine):
        """Two calls of each case are late; its places tell the cases apart."""

        def fire(self, group: int, place: int) -> int | None:
            honest = super().fire(group, place)
            own = [each for each in self._shared.log if each[0] == "fire" and each[2] // 4 == place // 4]
            return None if len(own) in (VERIFIED + 2, VERIFIED + 4) else honest

    events, _ = judged(tmp_path, LateTwice, None, benchmarks=[{"size": n, "seed": n} for n in (8, 32, 64)])

    assert [case.verdict for case in cases(events)] == [Verdict.ACCEPTED] * 3


# Long calls

LONG_NS = 12_000_000


class Walled(FakeEngine):
    """Takes some time by the judge's clock, which may differ from what the gun says."""

    lasts_ns = LONG_NS
    wall_ns = LONG_NS
    round_trip_ns = 80_000

    def fire(self, group: int, place: int) -> int | None:
        self._shared.gpu.now_ns += self.wall_ns + EMPTY_NS + self.round_trip_ns
        return super().fire(group, place)

    def empty(self) -> int | None:
        self._shared.gpu.now_ns += EMPTY_NS + self.round_trip_ns
        return super().empty()


@pytest.mark.parametrize(
    ("wall_ns", "score_ns"),
    [
        pytest.param(LONG_NS, LONG_NS, id="both clocks agree"),
        pytest.param(LONG_NS + 100_000, LONG_NS, id="within the slack"),
        pytest.param(20_000_000, 20_000_000 - timed_replays.WALL_SLACK_NS, id="the gun says less"),
    ],
)
def test_long_calls_rank_by_the_longer_of_gun_and_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall_ns: int, score_ns: float
) -> None:
    rooms: list[Any] = []
    engine = type("Long", (Walled,), {"wall_ns": wall_ns})

    class Noted(engine):  # type: ignore[misc, valid-type]
        def __init__(self, shared: Any) -> None:
            super().__init__(shared)
            rooms.append(shared)

    clock = SimpleNamespace(perf_counter_ns=lambda: rooms[0].gpu.now_ns)
    monkeypatch.setattr(replays, "time", clock)
    events, shared = judged(tmp_path, Noted)

    timing = accepted(events).timing
    assert timing.audit.level is TrustLevel.WITNESSED
    assert timing.score_ns == pytest.approx(score_ns)
    assert not [entry for entry in shared.log if entry[0] == "launch"]


# What ranks


def finished(
    watched_ns: list[float],
    gun_ns: list[float],
    wall_ns: float = 0.0,
    *,
    fired_at: dict[int, list[float]] | None = None,
    unreadable: int = 0,
    large: bool = False,
) -> Audit:
    room = timed_replays.TimedReplays.__new__(timed_replays.TimedReplays)
    room.offset_ns, room._wall_offset_ns = EMPTY_NS, 0.0
    room._witness = SimpleNamespace()  # type: ignore[assignment]
    room._checks = SimpleNamespace(form=lambda _place: None)  # type: ignore[assignment]
    case = SimpleNamespace(
        wall_ns=[wall_ns],
        place=None,
        layout=SimpleNamespace(place_bytes=large * 2 * timed_replays.LARGEST_WATCHED),
        due=lambda _place: [],
        fired_at=fired_at or {},
        watched_at={0: watched_ns} if watched_ns else {},
        unreadable=unreadable,
    )
    room._cases = {0: case}  # type: ignore[dict-item]
    room._asked = lambda *_: None  # type: ignore[assignment, method-assign]
    samples = SimpleNamespace(watched_ns=watched_ns, gun_ns=lambda _offset_ns: gun_ns)
    run: Any = SimpleNamespace(case=SimpleNamespace(index=0), samples=samples)
    return room.finish(run)


NS = st.floats(0.0, 1e7)


@settings(max_examples=examples(300), deadline=None)
@given(NS, st.lists(st.floats(0.98, 1.02), min_size=4, max_size=32), NS, st.floats(0.9, 1.1))
def test_a_ranked_time_is_never_shorter_than_the_witness_says(
    true_ns: float, scatter: list[float], other_ns: float, share: float
) -> None:
    watched = [true_ns * each for each in scatter]
    for gun in ([share * true_ns] * 8, [other_ns] * 8):
        try:
            audit = finished(watched, gun)
        except Forged:
            seen_ns = statistics.median(watched)
            least = timed_replays.LOWER_NS + timed_replays.LOWER_SHARE * seen_ns
            assert abs(gun[0] - seen_ns) >= least - 1e-6
            continue
        assert audit.score_ns >= max(timed_replays.LEAST_NS, trimmed_mean(watched))
        assert audit.level is TrustLevel.WITNESSED or ("witness_shorter", True) in codes(audit)
        # A gun that says less than this has been forged.
        assert gun[0] >= min(watched) * 0.9 - timed_replays.LOWER_NS


def codes(audit: Audit) -> list[tuple[str, bool]]:
    """The findings of an audit, and whether a person looks at them."""
    return [(each.code, each.quarantines) for each in audit.findings]


STEADY = [20_000.0] * 16


def test_one_slow_sample_does_not_switch_the_check_off() -> None:
    """Witness 68.4 us, gun 954.8 us once was no finding."""
    with_outlier = [*[40_000.0] * 7, 3_000_000.0]
    assert codes(finished(STEADY, with_outlier)) == [("witness_shorter", True)]
    with pytest.raises(Forged):
        finished([100_000.0] * 16, with_outlier)


def test_times_that_scatter_too_far_to_check_the_witness_are_held() -> None:
    assert ("unsteady", True) in codes(finished(STEADY, [15_000.0, 25_000.0] * 4))
    assert codes(finished(STEADY, [19_900.0, 20_100.0] * 4)) == []


def test_calls_that_take_longer_at_one_place_than_at_another_are_held() -> None:
    places = {0: [20_000.0] * 4, 1: [20_100.0] * 4, 2: [40_000.0] * 4}
    assert codes(finished(STEADY, [20_000.0] * 8, fired_at=places)) == [("places_differ", True)]
    few = {**places, 2: [40_000.0] * 2}
    assert codes(finished(STEADY, [20_000.0] * 8, fired_at=few)) == []


@pytest.mark.parametrize(("unreadable", "held"), [(0, []), (1, []), (2, [("unreadable", True)])])
def test_more_than_one_watch_that_could_not_be_read_is_held(unreadable: int, held: list[Any]) -> None:
    assert codes(finished(STEADY, [20_000.0] * 8, unreadable=unreadable)) == held


def test_a_case_that_is_too_large_for_the_witness_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_replays.TimedReplays, "_series_ns", lambda *_: 20_000.0)
    audit = finished([], [20_000.0] * 8, large=True)
    assert (audit.level, codes(audit)) == (TrustLevel.REPLAYED, [("too_large", True)])


@pytest.mark.parametrize(("address", "large"), [(2 << 30, False), (8 << 30, True)])
def test_an_answer_in_a_given_output_counts_once(address: int, large: bool) -> None:
    """Of a place with 2 GiB that begins at the first byte; the answer has 1 GiB."""
    nbytes = 1 << 30
    answer: Any = SimpleNamespace(addresses=[address], table=[{"nbytes": nbytes}])
    layout: Any = SimpleNamespace(place_bytes=2 << 30, spans=lambda _at: [range(1, 3 << 30)])
    case = replays.Case(place=cast("Any", None), layout=layout, source=cast("Any", None), answers=[answer])
    assert timed_replays.is_large(case) == large


@settings(max_examples=examples(100), deadline=None)
@given(st.floats(1.001e7, 1e9), st.floats(0.0, 1e9))
def test_a_long_call_is_never_ranked_below_either_clock(gun_ns: float, wall_ns: float) -> None:
    audit = finished([], [gun_ns] * 8, wall_ns)

    assert audit.level is TrustLevel.WITNESSED
    assert audit.score_ns >= max(gun_ns, wall_ns - timed_replays.WALL_SLACK_NS) * (1 - 1e-9)


# Duels


class Apart(FakeEngine):
    """Both sides take as long by the gun; only the witness sees how long the rival really takes."""

    rival_ns = 0

    def shows_ns(self, group: int) -> int:
        return super().shows_ns(group) + (self.rival_ns if self.is_rivals else 0)


RIVAL = {"rival": HONEST}


@pytest.mark.parametrize(("rival_ns", "verdict"), [(-900, "slower"), (0, "tied")])
def test_a_duel_is_decided_by_what_the_witness_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rival_ns: int, verdict: str
) -> None:
    if not rival_ns:
        monkeypatch.setattr(match, "LONGEST_S", 0.0)
    events, shared = judged(tmp_path, type("Rivals", (Apart,), {"rival_ns": rival_ns}), **RIVAL)

    accepted(events)
    found = duel_of(events)
    assert (found.verdict, found.rival_message) == (verdict, "")
    assert found.ratio == pytest.approx(SEEN_NS / (SEEN_NS + rival_ns), rel=1e-3)
    # All loads of both sides take part.
    assert {entry[1] for entry in shared.log if entry[0] == "launch"} == set(range(16))


def in_duel(*, rival: bool, fails: Any) -> type[FakeEngine]:
    """An engine where one watched call of one side fails in the duel."""

    class Fails(FakeEngine):
        calls = 0

        def watched(self, group: int, place: int) -> None:
            self.calls += len(self._sets) > 1
            if self.is_rivals == rival and self.calls == 9:
                fails(self)
            else:
                super().watched(group, place)

    return Fails


def leave_out(engine: FakeEngine) -> None:
    """Do as if the call was made: the pattern stays where the answer is due."""
    engine._shared.gpu.work(CALL_NS)


@pytest.mark.parametrize(("rival", "verdict"), [(True, ""), (False, "failed")])
def test_a_side_with_a_wrong_answer_in_a_watched_duel_has_lost_and_a_person_looks_at_it(
    tmp_path: Path, rival: bool, verdict: str
) -> None:
    events, _ = judged(tmp_path, in_duel(rival=rival, fails=leave_out), **RIVAL)

    accepted(events)
    found = duel_of(events)
    assert found.verdict == verdict
    assert f"in turns the {'rival' if rival else 'submission'}'s answers are wrong" in found.rival_message
    held = [each["finding"] for each in events if each["type"] == "finding"]
    assert [each["quarantines"] for each in held] == [True]


def fault(_engine: FakeEngine) -> None:
    """Do what a trap in a kernel does."""
    raise DeviceError("an illegal instruction was encountered", ends_process=True)


@pytest.mark.parametrize(("rival", "verdict"), [(True, ""), (False, "failed")])
def test_a_call_that_fails_in_a_watch_of_a_duel_is_its_sides_and_ends_no_run(
    tmp_path: Path, rival: bool, verdict: str
) -> None:
    events, _ = judged(tmp_path, in_duel(rival=rival, fails=fault), **RIVAL)

    accepted(events)
    found = duel_of(events)
    assert found.verdict == verdict
    assert f"in turns the {'rival' if rival else 'submission'}'s calls fail" in found.rival_message


class Refusing(FakeSampler):
    """Does not start again after some watches, as after one that took too long for it."""

    watches = 0
    started = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        Refusing.started = 0

    def start(self) -> None:
        Refusing.started += 1
        if Refusing.started > self.watches:
            raise NoCounters("the sampler answers 999")
        super().start()

    def stop(self) -> None:
        if self._began is None:
            raise NoCounters("the sampler has not begun")
        super().stop()


def test_a_sampler_that_refuses_ends_the_watches_and_not_the_run(tmp_path: Path) -> None:
    events, _ = judged(tmp_path, sampler=Refusing)

    audit = accepted(events).timing.audit
    assert ("unreadable", True) in codes(audit)


def test_a_sampler_that_refuses_in_a_duel_ends_the_duel_alone(tmp_path: Path) -> None:
    for each in ("alone", "duel"):
        (tmp_path / each).mkdir()
    judged(tmp_path / "alone", sampler=type("Counted", (Refusing,), {"watches": 1_000}))
    alone = Refusing.started
    events, _ = judged(tmp_path / "duel", sampler=type("After", (Refusing,), {"watches": alone}), **RIVAL)

    assert accepted(events).timing.audit.level is TrustLevel.WITNESSED
    assert (duel_of(events).verdict, "999" in duel_of(events).rival_message) == ("not_held", True)


def test_a_watched_duel_that_another_program_disturbs_is_not_held(tmp_path: Path) -> None:
    class InDuel(FakeEngine):
        def watched(self, group: int, place: int) -> None:
            super().watched(group, place)
            self._shared.gpu.haunted = len(self._sets) > 1

    events, _ = judged(tmp_path, InDuel, **RIVAL)

    accepted(events)
    assert duel_of(events).verdict == "not_held"
    assert "the witness" in duel_of(events).rival_message


def slowed(*sides: bool) -> type[FakeEngine]:
    """An engine where calls of some sides take a fifth longer in turns; True is the rival."""

    class Slowed(FakeEngine):
        calls = 0

        def shows_ns(self, group: int) -> int:
            self.calls += len(self._sets) > 1
            # The rival's first calls are alone.
            is_in_turns = self.calls > (timed_replays.LATEST if self.is_rivals else 0)
            return super().shows_ns(group) + (CALL_NS // 5 if is_in_turns and self.is_rivals in sides else 0)

    return Slowed


@pytest.mark.parametrize(
    ("sides", "verdict", "held"), [([False], "slower", 0), ([True], "", 1), ([False, True], "not_held", 0)]
)
def test_a_side_that_takes_longer_in_turns_than_alone_gains_nothing_by_it(
    tmp_path: Path, sides: list[bool], verdict: str, held: int
) -> None:
    events, _ = judged(tmp_path, slowed(*sides), **RIVAL)

    accepted(events)
    assert duel_of(events).verdict == verdict
    assert len([each for each in events if each["type"] == "finding"]) == held


def test_a_rival_that_is_slower_behind_the_submissions_calls_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 0.0)

    class Behind(FakeEngine):
        def shows_ns(self, group: int) -> int:
            last, self._shared.last = getattr(self._shared, "last", None), self.is_rivals
            return super().shows_ns(group) + (CALL_NS // 25 if self.is_rivals and last is False else 0)

    events, _ = judged(tmp_path, Behind, **RIVAL)

    accepted(events)
    (finding,) = [each["finding"] for each in events if each["type"] == "finding"]
    assert (finding["code"], finding["quarantines"]) == ("duel_spoilt", True)
    assert "longer than behind its own" in finding["text"]


def test_a_rival_that_the_witness_cannot_watch_is_not_timed_by_the_gun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 0.0)

    class Slow(FakeEngine):
        def fire(self, group: int, place: int) -> int | None:
            taken_ns = super().fire(group, place)
            return timed_replays.LONGEST_WATCHED_NS * 2 if self.is_rivals else taken_ns

    monkeypatch.setattr(timed_replays.TimedReplays, "_check_plausible", lambda *_: None)
    events, _ = judged(tmp_path, Slow, **RIVAL)

    accepted(events)
    assert duel_of(events).verdict == "not_held"
    assert "counters do not show the calls of both" in duel_of(events).rival_message


def test_without_counters_a_duel_goes_by_the_gun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 0.0)
    events, shared = judged(tmp_path, type("Rivals", (Apart,), {"rival_ns": 900}), Locked, **RIVAL)

    assert duel_of(events).verdict == "tied"
    assert not [entry for entry in shared.log if entry[0] == "launch"]


def test_the_clocks_own_share_is_the_mean_of_many_empty_graphs(tmp_path: Path) -> None:
    class Scattered(FakeEngine):
        def empty(self) -> int | None:
            count = sum(entry[0] == "empty" for entry in self._shared.log)
            return int(super().empty() or 0) + (count % 5 - 2) * 10

    events, shared = judged(tmp_path, Scattered, None)

    timing = accepted(events).timing
    assert timing.offset_ns == pytest.approx(EMPTY_NS, abs=5)
    assert statistics.fmean(timing.samples_ns) == EMPTY_NS + CALL_NS
    assert shared.log.count(("empty",)) == timed_replays.EMPTIES


@pytest.mark.parametrize("empty_ns", [400, 31_000])
def test_a_clock_whose_empty_graph_is_implausible_times_nothing(tmp_path: Path, empty_ns: int) -> None:
    class Implausible(FakeEngine):
        def empty(self) -> int | None:
            return empty_ns

    events, _ = judged(tmp_path, Implausible)

    assert room_of(events)["reason"] == "no_timer"
    assert f"an empty graph takes {empty_ns} ns" in room_of(events)["text"]


def test_a_watch_of_a_duel_has_no_more_calls_than_fit_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watches: list[int] = []
    real = witnessed.Witness.watch

    def counted(self: Any, rounds: Any, check: Any) -> Any:
        watches.append(len(rounds))
        return real(self, rounds, check)

    monkeypatch.setattr(match, "LONGEST_S", 0.0)
    monkeypatch.setattr(timed_replays.TimedReplays, "rounds", lambda *_: 3)
    monkeypatch.setattr(witnessed.Witness, "watch", counted)
    events, _ = judged(tmp_path, **RIVAL)

    accepted(events)
    assert (duel_of(events).verdict, duel_of(events).blocks) == ("tied", 16)
    assert max(watches) == 3
