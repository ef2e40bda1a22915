"""Times of the baseline by the clock that replayed submissions have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay import graph_timer
from kernelcup_harness.clocks.replay.graph_timer import TINY_NS, GraphTimer
from kernelcup_harness.clocks.replay.timed_replays import MOST_ROUNDS
from kernelcup_harness.clocks.replay.timer_line import TimerFailed
from kernelcup_harness.clocks.replay.witnessed import Round
from kernelcup_harness.core.plan import PlannedCase
from kernelcup_harness.device.nvidia.call_graphs import count_kernels, tensors_of
from kernelcup_harness.device.port import Captured
from kernelcup_harness.doubt.doubts import Doubts
from kernelcup_harness.protocol import Audit, StageName, Timing, TrustLevel

pytestmark = pytest.mark.filterwarnings("ignore:.*CUDA initialization.*")


class FakeWitness:
    """Watches rounds by making them; each takes 1000 ns."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.watches: list[int] = []

    def sweep(self) -> None:
        """There is no cache."""

    def watch(self, rounds: Sequence[Round], check: Callable[[], None]) -> list[float]:
        if self.failure is not None:
            raise self.failure
        self.watches.append(len(rounds))
        for each in rounds:
            each.before()
            each.call()
            each.after()
        check()
        return [1_000.0] * len(rounds)


class Graphs:
    """Captures by keeping the call."""

    def __init__(self) -> None:
        self.captured = 0
        self.tiny: Callable[[], None] | None = None

    def __call__(self, call: Callable[[Any], Any], make: Callable[[], Any]) -> Captured:
        data = make()
        if data.numel() == 1:
            self.tiny = lambda: None
            return Captured(self.tiny, 1, lambda: None, 4)
        self.captured += 1
        fresh = make()
        return Captured(lambda: call(data), 1, lambda: data.copy_(fresh), data.nbytes)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Graphs:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(
        graph_timer, "torch", SimpleNamespace(cuda=torch.cuda, empty=lambda size, **_: torch.zeros(size))
    )
    return Graphs()


def inputs(size: int = 4) -> Iterator[Callable[[], torch.Tensor]]:
    return ((lambda number=number: torch.full((size,), float(number))) for number in itertools.count())


def times(timer: GraphTimer, call: Callable[[Any], Any], watches: int = 2, **more: Any) -> list[list[float]]:
    found = timer.times_ns(call, more.get("makes") or inputs(), more.get("about_ns", 1_000.0))
    return list(itertools.islice(found, watches))


def test_where_there_is_a_witness_it_times_the_baseline(graphs: Graphs) -> None:
    seen: list[float] = []
    witness = FakeWitness()
    timer = GraphTimer(witness, lambda _: 9e9, graphs)  # type: ignore[arg-type]

    def call(data: torch.Tensor) -> None:
        seen.append(float(data[0]))
        data.zero_()

    assert times(timer, call) == [[1_000.0] * MOST_ROUNDS] * 2
    assert seen == [float(each) for each in range(2 * MOST_ROUNDS)]


def test_without_one_events_do_less_what_they_add_to_a_tiny_kernel(graphs: Graphs) -> None:
    timer = GraphTimer(None, lambda call: TINY_NS + 300.0 if call is graphs.tiny else 1_500.0, graphs)
    assert times(timer, lambda data: data + 1, watches=1) == [[1_200.0] * MOST_ROUNDS]


@pytest.mark.parametrize("failure", [trace.NothingSeen(), TimerFailed("gone")])
def test_a_witness_that_sees_nothing_is_not_asked_again(graphs: Graphs, failure: Exception) -> None:
    witness = FakeWitness(failure)
    timer = GraphTimer(witness, lambda call: TINY_NS + 300.0 if call is graphs.tiny else 1_500.0, graphs)  # type: ignore[arg-type]
    assert times(timer, lambda data: data + 1) == [[1_200.0] * MOST_ROUNDS] * 2
    assert witness.watches == []


@pytest.mark.parametrize(("about_ns", "rounds"), [(1_000.0, MOST_ROUNDS), (5e6, 1), (2e7, 1)])
def test_long_calls_are_watched_one_by_one_or_not(graphs: Graphs, about_ns: float, rounds: int) -> None:
    witness = FakeWitness()
    timer = GraphTimer(witness, lambda _: 2e7, graphs)  # type: ignore[arg-type]
    (found,) = times(timer, lambda data: data + 1, watches=1, about_ns=about_ns)
    assert len(found) == rounds
    assert witness.watches == ([rounds] if about_ns < 1e7 else [])


def test_a_call_that_cannot_be_captured_has_no_such_time() -> None:
    def refuses(_call: Any, _make: Any) -> Captured:
        raise RuntimeError("operation not permitted when stream is capturing")

    assert times(GraphTimer(None, lambda _: 1.0, refuses), lambda data: data) == []


def test_all_tensors_of_an_input_are_restored() -> None:
    one, two = torch.zeros(1), torch.ones(1)
    assert tensors_of({"a": [one, 3], "b": (two, "x")}) == [one, two]


# Which of both is compared


@pytest.mark.parametrize(
    ("captured", "replayed_ns", "expected"),
    [(True, [2.0], [2.0]), (True, [], [9.0]), (False, [2.0], [14.0])],
    ids=["both replayed", "only the submission", "by the wall clock"],
)
def test_a_speedup_compares_times_of_one_clock(
    captured: bool, replayed_ns: list[float], expected: list[float]
) -> None:
    doubts = Doubts.__new__(Doubts)
    key = (StageName.RANKED, 0)
    doubts.baselines_ns = {(*key, False): [9.0], (*key, True): replayed_ns}
    stage = type("Stage", (), {"name": StageName.RANKED})()
    level = TrustLevel.WITNESSED if captured else TrustLevel.WALL_CLOCK
    timing = Timing(
        samples_ns=[1.0], overhead_ns=5.0, audit=Audit(captured=captured, score_ns=1.0, level=level)
    )
    case = PlannedCase(index=0, parameters={}, hidden=False)
    assert doubts._baseline_ns(stage, case, timing) == expected


class FakeDriver:
    """Answers about a graph whose nodes have these types."""

    def __init__(self, types: list[int]) -> None:
        self.types = types

    def __call__(self, name: str, first: Any, place: Any, count: Any = None) -> None:
        if name == "cuGraphNodeGetType":
            place._obj.value = self.types[first.value]
            return
        count._obj.value = len(self.types)
        if place is not None:
            assert self.types, "a count of 0 is refused"
            place[:] = range(len(self.types))


@pytest.mark.parametrize(("types", "kernels"), [([], 0), ([0, 2, 1, 0], 2), ([2], 0)])
def test_only_kernels_are_surely_seen_of_a_graph(types: list[int], kernels: int) -> None:
    assert count_kernels(FakeDriver(types), 1) == kernels  # type: ignore[arg-type]
