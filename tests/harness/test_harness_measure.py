"""Claims against the judge's clock: whole ranked stages with all processes as threads of this one."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from harness_runs import quick_spec
from inside import FakeRecorder, StaleRecorder, cases, judged

from kernelcup_harness import audits, bench, graphs, measure, timing, trusted
from kernelcup_harness.contestant import Contestant
from kernelcup_harness.crew import ROLES
from kernelcup_harness.duel import Duel, Fought, of_pairs, result
from kernelcup_harness.measure import Device, ring_size
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    DuelResult,
    Finding,
    JobSpec,
    MeasureRules,
    Mode,
    NotCaptured,
    Reason,
    TrustLevel,
    Verdict,
)

HONEST = "def custom_kernel(data):\n    return data * 2\n"
OWN_BUFFER = """\
import torch

kept = {}


def custom_kernel(data):
    return torch.mul(data, 2, out=kept.setdefault(data.shape, torch.empty_like(data)))
"""
# Right for whatever comes alone, wrong for many after each other.
SKIPS = """\
seen = []


def custom_kernel(data):
    seen.append(data.sum().item())
    return data * 2 if len(set(seen[-4:])) == min(4, len(seen)) else data
"""
LATE = """\
calls = []


def custom_kernel(data):
    calls.append(1)
    return data * (2 if len(calls) < 12 else 3)
"""
BUSY = """\
import time


def custom_kernel(data):
    end = time.perf_counter() + 2e-3
    while time.perf_counter() < end:
        pass
    return data * 2
"""
SMALL_CACHE = Device(l2_bytes=1 << 10, memory_bytes=1 << 30)
RULES = MeasureRules(warmups=1, min_samples=3, max_samples=4, stage_budget_s=0.4)

pytestmark = pytest.mark.usefixtures("by_events")


def ranked(submission: str, **changes: Any) -> JobSpec:
    """Return a ranked job of one case."""
    values: dict[str, Any] = {"mode": Mode.LEADERBOARD, "backend": Backend.CPU, "tests": [], "rules": RULES}
    return quick_spec(submission, **(values | changes))


@pytest.fixture
def with_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have slopes measured on the processor too."""
    monkeypatch.setattr(bench, "Device", type("Known", (), {"of": staticmethod(lambda gpu: SMALL_CACHE)}))


def test_a_ranked_case_has_claims_handshakes_and_an_audit(tmp_path: Path) -> None:
    events = judged(ranked(HONEST), tmp_path)
    (case,) = cases(events)
    assert case.verdict is Verdict.ACCEPTED
    assert case.timing is not None
    assert case.timing.audit is not None
    assert len(case.timing.handshakes_ns) >= measure.FEWEST_HANDSHAKES
    assert case.timing.audit.slope_ns is None
    assert case.checks > len(case.timing.samples_ns) + len(case.timing.handshakes_ns)


def test_the_report_has_the_calibration_and_where_the_time_went(tmp_path: Path) -> None:
    events = judged(ranked(HONEST), tmp_path)
    before, calibration = [event["calibration"] for event in events if event["event"] == "calibration"]
    assert before["canary_ns"] == calibration["canary_ns"] > 0
    assert calibration["offset_ns"] == 0.0
    assert [point[0] for point in calibration["spin_points"]] == [5e3, 2e4, 1e5]
    assert calibration["spin_line"][0] > 0
    (phases,) = [event["phases"] for event in events if event["event"] == "phases"]
    assert {"context", "canary", "load", "calibration", "ranked/claims"} <= phases.keys()
    assert {"ranked/handshakes", "ranked/reference"} <= phases.keys()


def test_without_a_trusted_contestant_times_are_self_measured(tmp_path: Path) -> None:
    events = judged(ranked(HONEST), tmp_path, roles=("submission",))
    (case,) = cases(events)
    assert case.timing is not None
    assert case.timing.audit is None
    assert case.timing.handshakes_ns == []


@pytest.mark.usefixtures("with_rings")
def test_calls_that_can_be_recorded_are_audited_from_a_graph(tmp_path: Path) -> None:
    recorder = FakeRecorder()
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=recorder))
    assert case.timing is not None
    assert case.timing.audit is not None
    assert case.timing.audit.captured
    assert case.timing.audit.slope_ns is not None
    assert len(case.timing.audit.slope_walls_ns[1]) >= measure.FEWEST_PAIRS
    assert recorder.recorded >= 1 + measure.SLOTS


@pytest.mark.usefixtures("with_rings")
def test_short_series_that_wait_make_no_call_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest, real = [0], Contestant._run

    def run(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        reply = real(self, frame)
        longest[0] = max(longest[0], frame["passes"])
        if frame["passes"] < longest[0]:
            # As long as a long series would have taken, nearly: then all the other calls seem to take nothing.
            until = began + 0.9 * (time.perf_counter() - began) * measure.SERIES
            while time.perf_counter() < until:
                pass
        return reply

    monkeypatch.setattr(Contestant, "_run", run)
    monkeypatch.setattr(audits, "HAND_OVER_NS", 0.0)
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=FakeRecorder()))
    assert case.timing is not None
    audit = case.timing.audit
    assert audit is not None
    assert audit.slope_ns is not None
    assert audit.captured
    # More where something else disturbed a long series.
    assert audit.slope_ns >= 0.999 * min(audit.slope_walls_ns[1]) / audit.slope_calls[1]
    assert audit.slope_ns > min(audit.slopes_ns)


@pytest.mark.usefixtures("with_rings")
def test_a_pass_that_waits_makes_no_series_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Contestant._run

    def run(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        until = time.perf_counter() + (0.1 if frame["passes"] == 1 else 0.0)
        while time.perf_counter() < until:
            pass
        return real(self, frame)

    monkeypatch.setattr(Contestant, "_run", run)
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=FakeRecorder()))
    assert case.timing is not None
    audit = case.timing.audit
    assert audit is not None
    assert audit.slope_calls[0] * case.timing.claim_ns >= measure.SHORT_SERIES_NS * 0.9


@pytest.mark.usefixtures("with_rings")
def test_who_claims_much_more_than_calls_take_is_timed_by_what_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = timing.HostClock.time

    def slow(self: timing.HostClock, call: Any) -> Any:
        def waiting() -> Any:
            until = time.perf_counter() + 2.5e-3
            while time.perf_counter() < until:
                pass
            return call()

        return real(self, waiting)

    monkeypatch.setattr(timing.HostClock, "time", slow)
    rings: list[int] = []
    series: dict[int, set[int]] = {}
    make, run = Contestant._make_ring, Contestant._run

    def made(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        rings.append(frame["count"])
        return make(self, frame)

    def ran(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        series.setdefault(rings[-1], set()).add(rings[-1] * frame["passes"])
        return run(self, frame)

    monkeypatch.setattr(Contestant, "_make_ring", made)
    monkeypatch.setattr(Contestant, "_run", ran)
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=FakeRecorder()))
    assert case.timing is not None
    audit = case.timing.audit
    assert audit is not None
    assert audit.slope_ns is not None
    assert case.timing.claim_ns > 2.5e6 > 10 * audit.slope_ns
    # By the claim there is time for a ring of a few places only: its inputs would lie in the cache.
    assert 0 < rings[0] < measure.FEWEST_IN_RING <= max(rings)
    assert set(audit.slope_calls) <= series[max(rings)]
    assert audit.slope_calls[0] * audit.slope_ns > 0.1 * measure.SHORT_SERIES_NS


def not_captured(audit: Audit) -> list[Finding]:
    """Return why calls were not recorded; on a busy machine their handshakes may disagree besides."""
    return [each for each in audit.findings if each.code == "not_captured"]


@pytest.mark.usefixtures("with_rings")
def test_what_cannot_be_recorded_scores_its_slope(tmp_path: Path) -> None:
    (case,) = cases(judged(ranked(HONEST), tmp_path))
    assert case.timing is not None
    audit = case.timing.audit
    assert audit is not None
    assert not audit.captured
    assert audit.slope_ns is not None
    assert audit.level is TrustLevel.BOUNDED
    # On a busy machine the handshakes may find that it took even longer.
    assert audit.score_ns >= max(audit.slope_ns, case.timing.claim_ns)
    (finding,) = not_captured(audit)
    assert not finding.quarantines
    assert finding.text.endswith("could not be captured in a CUDA graph")


class RefusingRecorder(FakeRecorder):
    """Refuses for a reason, in words of its own."""

    def __init__(self, reason: Any) -> None:
        super().__init__()
        self._reason = reason

    def record(self, calls: Any) -> graphs.Recording:
        """Refuse."""
        raise graphs.NotRecorded(self._reason)


@pytest.mark.usefixtures("with_rings")
@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (NotCaptured.WAITS, "(.item(), .cpu(), synchronize), or replaying a graph of its own"),
        (NotCaptured.RUNTIME, "it uses JAX, which queues functions of the host"),
        ("the hidden size is 4711", "in a CUDA graph"),
    ],
)
def test_why_calls_could_not_be_recorded_is_told_in_the_judges_words(
    tmp_path: Path, reason: str, told: str
) -> None:
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=RefusingRecorder(reason)))
    assert case.timing is not None
    assert case.timing.audit is not None
    (finding,) = not_captured(case.timing.audit)
    assert finding.text.endswith(told)


@pytest.mark.usefixtures("with_rings")
def test_a_recording_that_gives_old_answers_counts_as_eager(tmp_path: Path) -> None:
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=StaleRecorder()))
    assert case.verdict is Verdict.ACCEPTED
    assert case.timing is not None
    assert case.timing.audit is not None
    assert not case.timing.audit.captured
    assert [each.text for each in case.timing.audit.findings if "left another answer than" in each.text]


@pytest.mark.usefixtures("with_rings")
@pytest.mark.parametrize("recorder", [None, FakeRecorder()])
def test_one_output_for_all_calls_is_no_fault(tmp_path: Path, recorder: Any) -> None:
    (case,) = cases(judged(ranked(OWN_BUFFER), tmp_path, recorder=recorder))
    assert case.verdict is Verdict.ACCEPTED
    assert case.timing is not None
    assert case.timing.audit is not None
    assert case.timing.audit.slope_ns is not None


@pytest.mark.usefixtures("with_rings")
def test_a_slope_of_wrong_answers_counts_for_nothing(tmp_path: Path) -> None:
    (case,) = cases(
        judged(
            ranked(
                SKIPS,
                rules=MeasureRules(
                    warmups=1, min_samples=3, max_samples=4, stage_budget_s=0.4, repeats=0, twins=0
                ),
            ),
            tmp_path,
        )
    )
    assert case.timing is not None
    assert case.timing.audit is not None
    assert case.timing.audit.slope_ns is None


def test_a_wrong_answer_to_a_handshake_is_a_wrong_answer(tmp_path: Path) -> None:
    (case,) = cases(judged(ranked(LATE), tmp_path))
    assert case.verdict is Verdict.WRONG_ANSWER
    assert case.reason is Reason.DIFFERS
    assert case.failed_on is not None


def test_emulated_times_are_not_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = cases(judged(ranked(HONEST, backend=Backend.EMULATED), tmp_path))
    assert case.timing is not None
    assert case.timing.audit is None


# Places


@pytest.fixture
def claimed(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[int]]:
    """Return the slots of calls by their kind, as they are made."""
    found: dict[str, set[int]] = {}
    real = measure.Caller.go

    def go(self: Any, slot: int, kind: str, **more: Any) -> Any:
        found.setdefault(kind, set()).add(slot)
        return real(self, slot, kind, **more)

    monkeypatch.setattr(measure.Caller, "go", go)
    return found


def test_claims_have_their_inputs_at_several_places(tmp_path: Path, claimed: dict[str, set[int]]) -> None:
    (case,) = cases(judged(ranked(HONEST), tmp_path, roles=("submission",)))
    assert case.timing is not None
    assert len(case.timing.samples_ns) >= len(measure.CLAIM_SLOTS)
    assert claimed["claim"] == set(measure.CLAIM_SLOTS)


class Noting:
    """Stands for the way to a contestant: every call takes a microsecond."""

    def __init__(self) -> None:
        self.slots: list[int] = []

    def give(self, slot: int, *_given: Any, **_more: Any) -> None:
        self.slots.append(slot)

    def go(self, slot: int, *_given: Any, **_more: Any) -> None:
        assert slot == self.slots[-1]

    def open(self, _pending: Any) -> SimpleNamespace:
        return SimpleNamespace(ns=1e3, late=False)


class Late(Noting):
    """Takes ten times as long in every so-manieth call, and says that its device had to wait."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self._count = 0

    def open(self, _pending: Any) -> SimpleNamespace:
        self._count += 1
        late = self._count % self._every == 0
        return SimpleNamespace(ns=1e4 if late else 1e3, late=late)


def fought(mine: Noting, rivals: Noting, number: int = 0) -> Fought:
    """Return what two that take no time of their own give."""
    checks: Any = SimpleNamespace(make_input=lambda *_: 1, form=lambda *_: None, fault=lambda *_: None)
    callers: Any = (mine, rivals)
    fighting = Duel(checks, callers, offsets_ns=(0.0, 0.0), remaining=lambda: 9.0, number=number)
    return fighting.fight([Any], 9.0)  # type: ignore[list-item]


def test_both_sides_of_a_duel_have_their_inputs_at_the_same_several_places() -> None:
    mine, rivals = Noting(), Noting()
    assert result([fought(mine, rivals)]).verdict == "tied"
    assert mine.slots == rivals.slots
    assert set(mine.slots) == set(measure.CLAIM_SLOTS)


def test_a_block_in_which_the_device_waited_for_the_host_does_not_count() -> None:
    found = fought(Late(every=5), Noting())
    assert any(block.late for block in found.blocks)
    assert {ratio for block in found.counting for ratio in block.ratios} == {1.0}
    assert result([found]).blocks == len(found.counting) < len(found.blocks)


class Lying(Noting):
    """Says half of what its calls take in so many of ten blocks, and that the device had to wait in the others."""

    def __init__(self, lies: int, *, late: bool) -> None:
        super().__init__()
        self._lies = lies
        self._says_late = late
        self._count = 0

    def open(self, _pending: Any) -> SimpleNamespace:
        block, self._count = self._count // 2, self._count + 1
        lies = block >= measure.PLACES and block % 10 < self._lies
        return SimpleNamespace(ns=5e2 if lies else 1e3, late=self._says_late and not lies)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("lies", [2, 4, 5, 6])
def test_what_is_audited_of_a_duel_is_what_decides_it(lies: int, late: bool) -> None:
    found = fought(Lying(lies, late=late), Noting())
    said = result([found])
    (claim_ns,) = found.claims_ns(0)
    assert claim_ns / 1e3 == pytest.approx(said.ratio, rel=1e-6)
    assert claim_ns < 0.95e3


def test_where_the_device_mostly_waits_that_is_how_the_calls_are() -> None:
    found = fought(Late(every=2), Noting())
    assert len(found.counting) == len(found.blocks)
    assert result([found]).verdict == "slower"


def test_the_second_processes_of_a_duel_have_other_inputs() -> None:
    def inputs(number: int) -> set[int]:
        seen: set[int] = set()
        checks: Any = SimpleNamespace(
            make_input=lambda _place, sample: seen.add(sample.input),
            form=lambda *_: None,
            fault=lambda *_: None,
        )
        callers: Any = (Noting(), Noting())
        Duel(checks, callers, offsets_ns=(0.0, 0.0), remaining=lambda: 9.0, number=number).fight([Any], 9.0)  # type: ignore[list-item]
        return seen

    first, second = inputs(0), inputs(1)
    assert first
    assert first.isdisjoint(second)


def test_large_inputs_have_fewer_places() -> None:
    def places(nbytes: int) -> int:
        data = {"a": torch.empty(nbytes, dtype=torch.uint8, device="meta")}
        return len({measure.claim_slot(number, data) for number in range(10)})

    assert places(1) == places(64 << 20) == 4
    assert places(100 << 20) == 2
    assert places(4 << 30) == 1
    assert measure.claim_slot(3, {"a": 1}) == measure.CLAIM_SLOTS[3]


def test_places_of_claims_are_not_those_of_audits() -> None:
    others = range(measure.FIRST_SLOT, measure.FIRST_SOURCE + measure.SOURCES)
    assert set(measure.CLAIM_SLOTS).isdisjoint(others)


def test_the_device_rests_as_long_as_it_has_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    walls = iter([3e6, 12e6, 4e6, 90e6])
    rested: list[float] = []
    caller: Any = SimpleNamespace(ask=lambda *_given, **_more: ({}, next(walls)))
    monkeypatch.setattr(trusted.time, "sleep", rested.append)
    few, many = trusted.ring_walls(caller, (1, 4), 2, rests=True)
    assert (few, many) == ([12e6, 4e6], [3e6, 90e6])
    # Not longer than it helps.
    assert rested == [0.003, 0.012, 0.004, trusted.LONGEST_REST_S]


def test_before_a_long_series_the_device_cools_down_where_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    caller: Any = SimpleNamespace(ask=lambda frame, *_given, **_more: (done.append(frame["passes"]), 1e6))
    monkeypatch.setattr(trusted.time, "sleep", done.append)
    trusted.ring_walls(caller, (1, 4), 2, rests=True, cooled=True)
    assert done == [trusted.COOLED_S, 4, 0.001, 1, 0.001, 1, 0.001, trusted.COOLED_S, 4, 0.001]


def test_series_that_take_much_longer_than_claimed_say_enough() -> None:
    walls = iter([500e6, 100e6, 500e6, 100e6])
    caller: Any = SimpleNamespace(ask=lambda *_given, **_more: ({}, next(walls)))
    assert trusted.ring_walls(caller, (1, 4), 4, most_ns=200e6) == ([100e6], [500e6])


@pytest.mark.usefixtures("with_rings")
def test_a_ring_that_fits_into_the_cache_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    real = measure.audits.decide

    def decide(rounds: Any, backend: Any) -> Any:
        found.extend(each.slope_is_cold for each in rounds)
        return real(rounds, backend)

    monkeypatch.setattr(measure.audits, "decide", decide)
    judged(ranked(HONEST), tmp_path, recorder=FakeRecorder())
    assert set(found) == {True}
    found.clear()
    # Who claims much has time for a few places only.
    monkeypatch.setattr(measure, "ring_size", lambda *_given: 2)
    (tmp_path / "again").mkdir()
    judged(ranked(HONEST), tmp_path / "again", recorder=FakeRecorder())
    assert set(found) == {False}


@pytest.mark.usefixtures("with_rings")
@pytest.mark.parametrize("doubtful", [False, True])
def test_what_is_in_doubt_is_measured_again_on_a_device_that_has_cooled_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, doubtful: bool
) -> None:
    real = measure.ring_walls
    looks: list[bool] = []

    def walls(*given: Any, **options: Any) -> Any:
        # Who claims much is timed twice a look.
        if looks[-1:] != [options["cooled"]]:
            looks.append(options["cooled"])
        return real(*given, **options)

    monkeypatch.setattr(measure, "ring_walls", walls)
    monkeypatch.setattr(audits.Evidence, "is_in_doubt", doubtful)
    judged(ranked(HONEST), tmp_path, recorder=FakeRecorder())
    assert looks == [False, True][: 1 + doubtful]


@pytest.mark.usefixtures("with_rings")
def test_the_slack_of_slopes_follows_from_what_calls_of_a_case_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    def slack(slopes_ns: Any, gap_ns: float, claim_ns: float, *, calls_share: float) -> float:
        given.append({"slopes": slopes_ns, "gap": gap_ns, "share": calls_share})
        return 1e9 + claim_ns

    monkeypatch.setattr(measure.audits, "slope_slack", slack)
    monkeypatch.setattr(trusted.Trusted, "slope_gap_ns", 330.0)
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=FakeRecorder()))
    assert case.timing is not None
    audit = case.timing.audit
    assert audit is not None
    spread = audit.slope_calls[1] - audit.slope_calls[0]
    assert given[-1] == {"slopes": [], "gap": 330.0, "share": trusted.RING_SPREAD / spread}
    assert audit.slope_slack_ns > 1e9


# Duels


def duel(submission: str, rival: str, tmp_path: Path) -> dict[str, Any]:
    """Return the outcome of a duel."""
    job = ranked(submission, rival=rival, rival_name="rival.py")
    events = judged(job, tmp_path, roles=ROLES)
    (found,) = [event["duel"] for event in events if event["event"] == "duel"]
    return found  # type: ignore[no-any-return]


def test_a_slower_rival_loses(tmp_path: Path) -> None:
    found = duel(HONEST, BUSY, tmp_path)
    assert found["verdict"] == "faster"
    assert found["high"] < 1
    assert found["blocks"] == len(found["ratios"]) == len(found["cases"][0]) == sum(found["pairs"])
    assert len(found["pairs"]) == 2
    assert min(found["pairs"]) >= 8


@pytest.mark.parametrize(
    "rival",
    [
        "def custom_kernel(data):\n    return data\n",
        "import nowhere\n",
        "def custom_kernel(data):\n    raise ValueError\n",
    ],
)
def test_a_rival_that_fails_is_not_the_submissions_fault(tmp_path: Path, rival: str) -> None:
    found = duel(HONEST, rival, tmp_path)
    assert found["verdict"] == ""
    assert found["rival_message"]


def test_a_difference_as_there_is_between_processes_is_a_tie() -> None:
    def verdict(ratio: float, taken_ns: float) -> str:
        blocks = [[ratio * (1 + 0.001 * (number % 3 - 1))] for number in range(30)]
        return of_pairs([blocks], [taken_ns]).verdict

    assert verdict(0.996, 20e3) == verdict(1.004, 20e3) == "tied"
    assert (verdict(0.97, 20e3), verdict(1.031, 20e3)) == ("faster", "slower")
    # 80 ns are a lot of a short kernel, and nothing of a long one.
    assert verdict(0.97, 2e3) == "tied"
    assert verdict(0.985, 1e6) == "faster"


def test_two_pairs_of_processes_tell_smaller_differences_than_one() -> None:
    def of(*ratios: float) -> DuelResult:
        pairs = [[[ratio * (1 + 0.001 * (number % 3 - 1))] for number in range(30)] for ratio in ratios]
        return of_pairs(pairs, [20e3])

    assert of(0.984).verdict == "tied"
    assert of(0.984, 0.984).verdict == "faster"
    # What one pair has by chance the other may not have.
    assert of(0.98, 0.999).verdict == "tied"


def test_the_middle_of_ratios_is_geometric() -> None:
    found = of_pairs([[[0.5], [2.0], [0.5], [2.0]]], [1e6])
    assert found.ratio == pytest.approx(1.0)
    assert found.low < 1 < found.high


def test_one_block_says_nothing() -> None:
    found = of_pairs([[[0.5]], [[0.5]]], [1e6])
    assert (found.low, found.high, found.verdict) == (0.0, math.inf, "tied")


def test_pairs_of_processes_have_the_same_weight_however_many_blocks_they_have() -> None:
    few, many = [[0.9]] * 10, [[1.1]] * 60
    found = of_pairs([few, many], [1e6])
    assert found.ratio == pytest.approx((0.9 * 1.1) ** 0.5)
    assert (found.pairs, found.blocks) == ([10, 60], 70)


def test_a_submission_that_works_in_one_process_only_has_no_duel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Contestants are threads here, and can tell each other who was first.
    monkeypatch.setattr(sys, "imported", 0, raising=False)
    mine = (
        "import sys\n\nsys.imported += 1\nif sys.imported > 1:\n    raise ValueError('again')\n"
        "\n\ndef custom_kernel(data):\n    return data * 2\n"
    )
    job = ranked(mine, rival=HONEST, rival_name="rival.py")
    events = judged(job, tmp_path, roles=ROLES)
    (case,) = cases(events)
    assert case.verdict is Verdict.ACCEPTED
    (found,) = [event["duel"] for event in events if event["event"] == "duel"]
    assert found["verdict"] == "not_held"
    assert "submission's second process: it could not be imported" in found["rival_message"]


def test_a_failure_in_a_duel_is_told_of_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Contestants are threads here, and can tell each other that the duel has begun.
    monkeypatch.setattr(sys, "dueling", False, raising=False)
    rival = "import sys\n\n\ndef custom_kernel(data):\n    sys.dueling = True\n    return data * 2\n"
    mine = (
        "import sys\n\n\ndef custom_kernel(data):\n"
        "    return data * (3 if sys.dueling and data.numel() == 32 else 2)\n"
    )
    job = ranked(
        mine, rival=rival, rival_name="rival.py", benchmarks=[{"size": n, "seed": n} for n in (8, 32)]
    )
    (failed,) = cases(judged(job, tmp_path, roles=ROLES))
    assert failed.verdict is Verdict.WRONG_ANSWER
    assert (failed.index, failed.parameters["size"]) == (1, 32)


FORGED = Finding(code="handshake_disagrees", text="it takes longer", quarantines=True)


@pytest.mark.parametrize("role", ["submission", "rival"])
def test_a_duel_in_which_times_are_not_the_judges_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    real = bench.Bench._audited

    def audited(self: Any, auditor: Any, *args: Any, **options: Any) -> Any:
        audit = real(self, auditor, *args, **options)
        forged = self.dueling is not None and auditor._caller is self._callers[role]
        return replace(audit, findings=[FORGED]) if forged else audit

    monkeypatch.setattr(bench.Bench, "_audited", audited)
    found = duel(HONEST, BUSY, tmp_path)
    assert found["verdict"] == "not_held"
    assert f"of the {role} in the duel are not the judge's: it takes longer" in found["rival_message"]


def test_no_input_of_a_duels_audit_was_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, before, audited = [], set(), set()
    make, audit = bench.Checks.make_input, bench.Bench._audit_duel

    def noted(self: Any, place: Any, sample: Any) -> Any:
        (audited if begun else before).add(sample.input)
        return make(self, place, sample)

    def begin(self: Any, *given: Any) -> None:
        begun.append(1)
        audit(self, *given)

    monkeypatch.setattr(bench.Checks, "make_input", noted)
    monkeypatch.setattr(bench.Bench, "_audit_duel", begin)
    duel(HONEST, BUSY, tmp_path)
    assert len(begun) == 4
    assert audited
    assert not audited & before


def test_a_rival_without_memory_is_nobodys_victory(tmp_path: Path) -> None:
    rival = "import torch\n\n\ndef custom_kernel(data):\n    raise torch.OutOfMemoryError('no more')\n"
    found = duel(HONEST, rival, tmp_path)
    assert found["verdict"] == "not_held"
    assert "ran out of memory" in found["rival_message"]
    found = duel(HONEST, "import torch\n\nraise torch.OutOfMemoryError('no more')\n", tmp_path)
    assert found["verdict"] == "not_held"


# Rings


@pytest.mark.parametrize(
    ("place_bytes", "claim_ns", "budget_s", "device", "expected"),
    [
        pytest.param(1 << 20, 1e4, 1.0, Device(50 << 20, 80 << 30), 105, id="twice the cache"),
        pytest.param(1, 1e4, 1.0, Device(50 << 20, 80 << 30), 256, id="no more than the most"),
        pytest.param(1 << 30, 1e4, 1.0, Device(50 << 20, 80 << 30), 8, id="no fewer than the fewest"),
        pytest.param(4 << 30, 1e4, 1.0, Device(50 << 20, 80 << 30), 3, id="as many as there is room for"),
        pytest.param(40 << 30, 1e4, 1.0, Device(50 << 20, 80 << 30), 0, id="no room"),
        pytest.param(1 << 20, 1e9, 1.0, Device(50 << 20, 80 << 30), 0, id="no time"),
        pytest.param(1 << 20, 1e4, 1.0, Device(), 0, id="no cache that is known"),
    ],
)
def test_a_ring_is_as_large_as_it_must_and_can_be(
    place_bytes: int, claim_ns: float, budget_s: float, device: Device, expected: int
) -> None:
    assert ring_size(place_bytes, claim_ns, budget_s, device) == expected
