"""Duels by the wall clock: two submissions in turns, in two processes, on the same inputs."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from harness_runs import quick_spec
from inside import cases, judged

from kernelcup_harness.audit.bench import Bench, load
from kernelcup_harness.judge import duel as duels
from kernelcup_harness.judge.checks import Checks
from kernelcup_harness.judge.duel import Block, Duel, NotHeld, NoTime, RivalFailed, result
from kernelcup_harness.judge.schedule import all_stages
from kernelcup_harness.protocol import Backend, DuelResult, JobSpec, MeasureRules, Mode, Verdict
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout

HONEST = "def custom_kernel(data):\n    return data * 2\n"
BUSY = """\
import time


def custom_kernel(data):
    end = time.perf_counter() + 2e-3
    while time.perf_counter() < end:
        pass
    return data * 2
"""
RULES = MeasureRules(warmups=1, min_samples=3, max_samples=4, stage_budget_s=0.4)
SIZES = [{"size": n, "seed": n} for n in (8, 32)]


def job(submission: str, rival: str | None, **changes: Any) -> JobSpec:
    """Return a ranked job of one case on the processor, with a rival."""
    values: dict[str, Any] = {"mode": Mode.LEADERBOARD, "backend": Backend.CPU, "tests": [], "rules": RULES}
    return quick_spec(submission, rival=rival, rival_name="rival.py", **(values | changes))


def duel(spec: JobSpec, tmp_path: Path) -> dict[str, Any]:
    """Return the outcome of a job's duel."""
    events = judged(spec, tmp_path)
    assert [case.verdict for case in cases(events)] == [Verdict.ACCEPTED] * len(spec.benchmarks)
    (found,) = [event["duel"] for event in events if event["type"] == "duel"]
    return found  # type: ignore[no-any-return]


def test_a_slower_rival_loses(tmp_path: Path) -> None:
    found = duel(job(HONEST, BUSY, benchmarks=SIZES), tmp_path)
    assert found["verdict"] == "faster"
    assert found["high"] < 1
    assert found["pairs"] == [found["blocks"]]
    assert [len(ratios) for ratios in found["cases"]] == [found["blocks"]] * 2
    assert len(found["ratios"]) == found["blocks"] >= duels.FEWEST_BLOCKS


@pytest.mark.parametrize(
    ("rival", "said"),
    [
        ("def custom_kernel(data):\n    return data\n", "wrong answer: "),
        ("import nowhere\n", "it could not be imported: "),
        ("def custom_kernel(data):\n    raise ValueError('no')\n", "ValueError: no"),
    ],
)
def test_a_rival_that_fails_is_not_the_submissions_fault(tmp_path: Path, rival: str, said: str) -> None:
    found = duel(job(HONEST, rival), tmp_path)
    assert found["verdict"] == ""
    assert said in found["rival_message"]


def test_a_rival_without_memory_wins_and_loses_nothing(tmp_path: Path) -> None:
    rival = "import torch\n\n\ndef custom_kernel(data):\n    raise torch.OutOfMemoryError('no more')\n"
    found = duel(job(HONEST, rival), tmp_path)
    assert found["verdict"] == "not_held"
    assert "ran out of memory" in found["rival_message"]


def test_a_rival_that_cannot_be_imported_for_lack_of_memory_wins_and_loses_nothing(tmp_path: Path) -> None:
    found = duel(job(HONEST, "import torch\n\nraise torch.OutOfMemoryError('no more')\n"), tmp_path)
    assert found["verdict"] == "not_held"
    assert "not enough memory to import it" in found["rival_message"]


def test_a_job_without_a_rival_has_no_duel(tmp_path: Path) -> None:
    events = judged(job(HONEST, None), tmp_path)
    assert "duel" not in {event["type"] for event in events}


# Contestants are threads here, and can tell each other that the duel has begun.
TELLING = "import sys\n\n\ndef custom_kernel(data):\n    sys.dueling = True\n    return data * 2\n"
OTHERWISE_IN_A_DUEL = """\
import sys


def custom_kernel(data):
    if sys.dueling and data.numel() == 32:
        {does}
    return data * 2
"""


@pytest.mark.parametrize(
    ("does", "verdict"),
    [("return data * 3", Verdict.WRONG_ANSWER), ("raise ValueError('no')", Verdict.RUNTIME_ERROR)],
)
def test_a_submission_that_fails_in_a_duel_fails_in_the_case_of_that_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, verdict: Verdict
) -> None:
    monkeypatch.setattr(sys, "dueling", False, raising=False)
    events = judged(job(OTHERWISE_IN_A_DUEL.format(does=does), TELLING, benchmarks=SIZES), tmp_path)
    (failed,) = cases(events)
    assert failed.verdict is verdict
    assert (failed.index, failed.parameters["size"]) == (1, 32)
    assert failed.failed_on is not None
    assert failed.failed_on.input > duels.FIRST_INPUT
    assert "duel" not in {event["type"] for event in events}


def test_a_submission_that_ends_in_a_duel_ends_the_run_with_the_case_of_that_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Duel._call

    def closed(self: Duel, who: int, place: Any, sample: Any) -> float:
        if who == 0 and place.index == 1:
            raise ChannelClosed("end of stream")
        return real(self, who, place, sample)

    monkeypatch.setattr(Duel, "_call", closed)
    events = judged(job(HONEST, HONEST, benchmarks=SIZES), tmp_path)
    (*_, end) = [event for event in events if event["type"] == "stage_end"]
    assert (end["verdict"], end["reason"], end["lost"]) == ("runtime_error", "exited", True)
    assert end["message"].endswith("in case 1")


def test_inputs_of_a_duel_are_new_and_the_same_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    real = Checks.make_input

    def noted(self: Any, place: Any, sample: Any) -> Any:
        made.append(sample.input)
        return real(self, place, sample)

    monkeypatch.setattr(Checks, "make_input", noted)
    found = duel(job(HONEST, HONEST), tmp_path)
    numbers = [each for each in made if duels.FIRST_INPUT < each < 2 * duels.FIRST_INPUT]
    assert len(numbers) == 4 * (found["blocks"] + duels.WARM_UP_BLOCKS)
    # Two inputs a block, each once for the submission and once for its rival: A B B A.
    for first, second, third, fourth in zip(*[iter(numbers)] * 4, strict=True):
        assert (first, third) == (second, fourth)
        assert first != third
    assert len(set(numbers)) == len(numbers) / 2


def unused(spec: JobSpec, **changes: Any) -> Bench:
    """Return a bench of a job whose contestants are not called."""
    nothing: Any = None
    values: dict[str, Any] = {"checks": nothing, "callers": {}, "channels": {}, "tell": nothing}
    return Bench(spec, **(values | changes))


def test_on_a_gpu_two_wall_clocks_have_no_duel() -> None:
    told: list[Any] = []
    spec = job(HONEST, HONEST)
    bench = unused(spec, tell=told.append, remaining=lambda: 0.0)
    bench.watch.gpu = True
    (ranked,) = [stage for stage in all_stages(spec) if stage.timed]
    bench.duel(ranked, [])
    (message,) = told
    assert message.duel.verdict == "not_held"
    assert message.duel.rival_message == "one of the two was timed by the wall clock"


# The import of a rival


class Contestant:
    """A channel whose other end answers with these frames, or fails."""

    def __init__(self, *replies: dict[str, Any] | Exception) -> None:
        self.has_greeted, self.sent, self._replies = False, list[dict[str, Any]](), list(replies)

    def send(self, frame: dict[str, Any], timeout_s: float) -> None:
        assert timeout_s > 0
        self.sent.append(frame)

    def receive(self, _timeout_s: float) -> dict[str, Any]:
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_a_rival_is_imported_once_it_has_said_hello() -> None:
    channel: Any = Contestant({"type": "hello"}, {"type": "ready"})
    load(channel, "rival.py", 5.0)
    assert channel.sent == [{"type": "load", "file": "rival.py"}]
    assert channel.has_greeted


@pytest.mark.parametrize(
    "replies",
    [
        [{"type": "ready"}],
        [{"type": "hello", "trouble": 1}],
        [{"type": "hello"}, {"type": "given"}],
        [{"type": "hello"}, {"type": "fail", "kind": "import", "text": "no"}],
        [{"type": "hello"}, ChannelTimeout()],
        [{"type": "hello"}, ChannelClosed("end of stream")],
        [BrokenProtocol("no frame")],
    ],
)
def test_a_rival_that_does_not_say_that_it_is_ready_has_failed(replies: list[Any]) -> None:
    channel: Any = Contestant(*replies)
    with pytest.raises(RivalFailed, match="could not be imported"):
        load(channel, "rival.py", 5.0)


# Whose fault a failure is


def meant(who: int, error: Exception, *, left_s: float = 5.0) -> Exception:
    """Return the exception that a failure of one of the two means."""
    nothing: Any = None
    return Duel(nothing, (nothing, nothing), remaining=lambda: left_s)._meant(who, error)


def test_a_submissions_own_failure_stays_what_it_is() -> None:
    error = ChannelClosed("end of stream")
    assert meant(0, error) is error


@pytest.mark.parametrize("who", [0, 1])
def test_a_stage_whose_time_is_over_has_no_duel(who: int) -> None:
    found = meant(who, ChannelTimeout(), left_s=0.0)
    assert isinstance(found, NoTime)
    assert isinstance(found, NotHeld)


def test_a_rival_that_is_silent_while_there_is_time_has_failed() -> None:
    assert isinstance(meant(1, ChannelTimeout()), RivalFailed)
    assert str(meant(1, ChannelTimeout())) == "ChannelTimeout"


def test_an_import_for_which_there_is_no_time_is_not_the_rivals_fault() -> None:
    channel: Any = Contestant({"type": "hello"}, ChannelTimeout())
    left_s = [5.0, 0.0]
    bench = unused(job(HONEST, HONEST), channels={"rival": channel}, remaining=lambda: left_s.pop(0))
    with pytest.raises(NoTime):
        bench.load_rival()


# The verdict


def blocks(ratios: list[float], rival_ns: float = 20e3) -> list[Block]:
    """Return blocks of one case with these ratios."""
    return [Block(taken_ns=([ratio * rival_ns], [rival_ns])) for ratio in ratios]


def around(ratio: float, rival_ns: float = 20e3) -> DuelResult:
    """Return the outcome of 30 blocks near a ratio."""
    return result(blocks([ratio * (1 + 0.001 * (number % 3 - 1)) for number in range(30)], rival_ns))


def test_a_difference_as_there_is_between_processes_is_a_tie() -> None:
    assert around(0.996).verdict == around(1.004).verdict == "tied"
    assert (around(0.97).verdict, around(1.031).verdict) == ("faster", "slower")
    # 80 ns are a lot of a short kernel, and nothing of a long one.
    assert around(0.97, 2e3).verdict == "tied"
    assert around(0.985, 1e6).verdict == "faster"


def test_the_middle_of_ratios_is_geometric() -> None:
    found = result(blocks([0.5, 2.0, 0.5, 2.0], 1e6))
    assert found.ratio == pytest.approx(1.0)
    assert found.low < 1 < found.high


def test_all_cases_have_the_same_weight() -> None:
    two = [Block(taken_ns=([0.5e6, 8e3], [1e6, 4e3])) for _ in range(10)]
    found = result(two)
    assert found.ratio == pytest.approx(1.0)
    assert found.cases == [[0.5] * 10, [2.0] * 10]
    assert found.ratios == pytest.approx([1.0] * 10)


def test_one_block_says_nothing() -> None:
    found = result(blocks([0.5]))
    assert (found.low, found.high, found.verdict) == (0.0, math.inf, "tied")
    assert (found.blocks, found.pairs) == (1, [1])


def test_a_block_is_measured_at_each_case_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = None
    at: list[int] = []
    fight = Duel(
        nothing, (nothing, nothing), remaining=lambda: 1.0, at=lambda number, _sample: at.append(number)
    )
    order: list[tuple[int, Any]] = []

    def call(who: int, place: Any, _sample: Any) -> float:
        order.append((who, place))
        return 100.0 if who == 0 else 300.0

    monkeypatch.setattr(fight, "_call", call)
    places: Any = ["first", "second"]
    found = fight.fight(places, 0.0)
    assert len(found) == duels.FEWEST_BLOCKS
    assert found[0].taken_ns == ([100.0, 100.0], [300.0, 300.0])
    assert [who for who, place in order if place == "first"][:8] == [0, 1, 1, 0] * 2
    assert at == ([0] * 4 + [1] * 4) * (duels.FEWEST_BLOCKS + duels.WARM_UP_BLOCKS)


def test_a_duel_ends_with_the_most_blocks_however_much_time_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing: Any = None
    fight = Duel(nothing, (nothing, nothing), remaining=lambda: 1.0)
    monkeypatch.setattr(fight, "_call", lambda *_given: 100.0)
    places: Any = ["only"]
    assert len(fight.fight(places, 1e9)) == duels.MOST_BLOCKS
