"""Duels in the clean room: what calls may know of each other, and what a side that fails in turns gets for it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fake_room import CALL_NS, FakeEngine, judged_in_room
from harness_runs import HONEST, replayed
from inside import cases, duel_of

from kernelcup_harness.clocks.replay import match
from kernelcup_harness.core.check import Checks
from kernelcup_harness.device.nvidia.driver import DriverError
from kernelcup_harness.protocol import Verdict

SIZES = [{"size": n, "seed": n} for n in (8, 32)]


def held_back(events: list[dict[str, Any]]) -> list[str]:
    findings = [event["finding"] for event in events if event["type"] == "finding"]
    return [each["text"] for each in findings if each["quarantines"]]


BEFORE = 4 + match.ALONE
"""Calls of the rival before the duel, which verify its first load and say what it takes alone."""


class Dueling(FakeEngine):
    """Knows how many calls the two sides have made since all loads were there."""

    def fire(self, group: int, place: int) -> int:
        self._shared.turns += len(self._sets) > 1
        return super().fire(group, place)

    @property
    def turns(self) -> int:
        return self._shared.turns - BEFORE


# A replay makes the call again here, so that it can tell the engine what its kernel would have known.
REMEMBERS = """\
import sys
from collections import Counter

seen = Counter()


def custom_kernel(data):
    seen[data[0].item()] += 1
    sys.knows_its_input = seen[data[0].item()] > 4
    return data * 2
"""


class Remembers(FakeEngine):
    """The submission is 5 % slower by itself, and leaves out 7 % once it has seen an input four times."""

    def fire(self, group: int, place: int) -> int:
        taken_ns = super().fire(group, place)
        if self.is_rivals:
            return taken_ns
        return taken_ns + CALL_NS // 20 - (CALL_NS * 7 // 100 if sys.knows_its_input else 0)  # type: ignore[attr-defined]


def test_a_kernel_that_leaves_work_out_for_inputs_that_it_knows_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "knows_its_input", False, raising=False)
    events, _ = judged_in_room(replayed(REMEMBERS, rival=HONEST), tmp_path, engine=Remembers)

    assert duel_of(events).verdict == "slower"
    assert duel_of(events).ratio == pytest.approx(1.05, rel=1e-3)


def test_each_call_of_a_duel_has_an_input_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []
    real = Checks.make_input

    def noted(self: Checks, place: Any, sample: Any) -> Any:
        if sample.input >= match.FIRST_INPUT:
            made.append((place.index, sample.input))
        return real(self, place, sample)

    monkeypatch.setattr(Checks, "make_input", noted)
    monkeypatch.setattr(match, "LONGEST_S", 0.0)
    events, _ = judged_in_room(replayed(rival=HONEST, benchmarks=SIZES), tmp_path)

    # The last one is for the kernels' shares, once the duel is decided.
    assert len(set(made)) == len(made) == 2 * (2 * duel_of(events).blocks + match.ALONE) + 1


def test_both_sides_are_first_equally_often_with_each_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine ends no round.
    for limit in ("LONGEST_S", "LONGEST_ROUND_S"):
        monkeypatch.setattr(match, limit, 600.0)
    first: Counter[tuple[int, bool]] = Counter()

    class Noted(Dueling):
        def fire(self, group: int, place: int) -> int:
            taken = super().fire(group, place)
            if self.turns > 0 and self.turns % 2 and group not in self._cuts:
                first[group, self.is_rivals] += 1
            return taken + (CALL_NS // 10 if self.is_rivals else 0)

    judged_in_room(replayed(rival=HONEST), tmp_path, engine=Noted)
    assert set(first.values()) == {5}
    assert len(first) == 32


def test_a_duel_whose_time_is_over_ends_after_a_whole_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 0.0)
    events, _ = judged_in_room(replayed(rival=HONEST), tmp_path)

    assert (duel_of(events).verdict, duel_of(events).blocks) == ("tied", 16)


def test_a_case_whose_inputs_take_long_has_no_duel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "LONGEST_ROUND_S", 0.0)
    events, _ = judged_in_room(replayed(rival=HONEST), tmp_path)

    assert duel_of(events).verdict == "not_held"
    assert "take too long" in duel_of(events).rival_message
    assert held_back(events) == []


FAULT = DriverError("cuStreamSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")


def failing(*, rival: bool, how: str) -> type[FakeEngine]:
    """An engine where one call of one side fails in the duel, once."""

    class Fails(Dueling):
        failed = False

        def fire(self, group: int, place: int) -> int:
            its = self.is_rivals == rival
            if how == "less time":
                self.lasts_ns = CALL_NS // 3 if its and self.turns > 0 else CALL_NS
            if self.turns <= 100 or not its or self.failed or how == "less time":
                return super().fire(group, place)
            self.failed = True
            if how == "calls fail":
                raise FAULT
            # The pattern stays where the answer is due.
            return CALL_NS

    return Fails


@pytest.mark.parametrize(
    ("rival", "verdict", "how"),
    [
        (True, "", "answers are wrong"),
        (False, "failed", "answers are wrong"),
        (False, "failed", "calls fail"),
        (True, "", "less time"),
    ],
)
def test_a_side_that_fails_in_turns_has_lost_and_a_person_looks_at_it(
    tmp_path: Path, rival: bool, verdict: str, how: str
) -> None:
    events, _ = judged_in_room(replayed(rival=HONEST), tmp_path, engine=failing(rival=rival, how=how))

    (case,) = cases(events)
    assert case.verdict is Verdict.ACCEPTED
    assert duel_of(events).verdict == verdict
    assert f"in turns the {'rival' if rival else 'submission'}'s " in duel_of(events).rival_message
    assert how in duel_of(events).rival_message
    assert held_back(events) == [duel_of(events).rival_message]
