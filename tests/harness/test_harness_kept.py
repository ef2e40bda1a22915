"""Kept binaries: a ranked run's calls and memory, replayed in later jobs in the place of the submission's code."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_room
import pytest
import torch
from fake_room import FakeEngine, FakeHands, judged_in_room, tensors_in
from harness_runs import quick_spec, replayed
from inside import cases, duel_of
from torch.utils._python_dispatch import TorchDispatchMode

from kernelcup_harness.clocks.replay import keeping, kept, match
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    KeptBinary,
    KeptFile,
    Mode,
    ProtocolError,
    Reason,
    StageName,
    TrustLevel,
    Verdict,
    check_spec,
)
from kernelcup_harness.protocol.profiles import BINARY, MEMORY
from kernelcup_harness.run import binaries, runner
from kernelcup_harness.run.record import Record
from kernelcup_harness.window.graph_data import Rebuilt
from kernelcup_harness.window.layout import HEAPS
from kernelcup_harness.wire.job_messages import Binary, BinaryRefused
from kernelcup_harness.wire.messages import unpack

TABLE = """\
import torch

table = None


def custom_kernel(data):
    global table
    if table is None:
        table = torch.full((1,), {factor})
    return data * table
"""
"""A kernel that reads a table in its heap, as a lookup table or a workspace lies there."""
RIGHT = TABLE.format(factor=2)
TWO, THREE = (torch.tensor([each]).numpy().tobytes() for each in (2, 3))
MARK = torch.tensor([-0x5EED]).numpy().tobytes()
REMEMBERS = """\
import torch

table = seen = None


def custom_kernel(data):
    global table, seen
    if table is None:
        table = torch.full((1,), 2)
        seen = torch.cat([torch.full((1,), -0x5EED), data])
    return data * table
"""
"""A kernel whose memory holds the first input that it has seen."""
SIZES = [{"size": 8, "seed": 5}, {"size": 32, "seed": 6}]


class DataHands(FakeHands):
    """Captures products of two tensors as data that mean something in another process: their addresses."""

    def __init__(self, shared: Any) -> None:
        super().__init__(shared)
        self.graphs: list[list[int]] = []

    def capture(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        with self.in_use():
            for call in calls:
                call()
        return super().capture(calls)

    def replay_of(self, call: Callable[[], Any], kept: torch.Tensor) -> Callable[[], None]:
        with Products() as products:
            call()
        self.graphs.append([*products.seen, kept.data_ptr(), kept.numel()])
        return lambda: None

    def export(self) -> tuple[bytes, None]:
        return json.dumps(self.graphs).encode(), None


class Products(TorchDispatchMode):
    """Notes where the factors of the last product lie."""

    seen: tuple[int, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "mul" in str(func):
            self.seen = tuple(each.data_ptr() for each in tensors_in(args))
        return func(*args, **(kwargs or {}))


class DataEngine(FakeEngine):
    def load(self, data: bytes, cut: int | None = None) -> Rebuilt:
        graphs = [self._product(*each) for each in json.loads(data)]
        if cut is not None:
            return self.cut(graphs[cut])
        self._sets.append(graphs)
        return Rebuilt(list(range(len(graphs))), [1] * len(graphs), ["same"] * len(graphs))

    def _product(self, source: int, table: int, target: int, numel: int) -> Callable[[], None]:
        self.table = table

        def multiply() -> None:
            values = self._numbers(source, numel) * self._numbers(table, 1)
            self._shared.log.append(("product", table))
            self._numbers(target, numel).copy_(values)

        return multiply

    def _numbers(self, address: int, numel: int) -> torch.Tensor:
        return self._shared.view(address, 8 * numel).view(torch.int64)


def ranked(submission: str = RIGHT, **changes: Any) -> JobSpec:
    return replayed(submission, **changes)


def judged(spec: JobSpec, folder: Path) -> tuple[list[dict[str, Any]], Any]:
    folder.mkdir(exist_ok=True)
    return judged_in_room(spec, folder, hands=DataHands, engine=DataEngine, rival=DataHands)


def binary_of(events: list[dict[str, Any]], run: int = 7) -> KeptBinary:
    (found,) = [unpack(Binary, each) for each in events if each["type"] == "binary"]
    assert found.why == ""
    return KeptBinary(run=run, files=[file(BINARY, found.gz64), file(MEMORY, found.memory_gz64)])


def file(name: str, gz64: str) -> KeptFile:
    body = gzip.decompress(base64.b64decode(gz64))
    return KeptFile(name=name, nbytes=len(body), sha256=hashlib.sha256(body).hexdigest(), gz64=gz64)


def changed(binary: KeptBinary, name: str, change: Callable[[bytes], bytes]) -> KeptBinary:
    """A binary with other content in a file, whose hash is right."""
    files = []
    for each in binary.files:
        if each.name == name:
            body = change(gzip.decompress(base64.b64decode(each.gz64)))
            each = file(name, base64.b64encode(gzip.compress(body)).decode())
        files.append(each)
    return replace(binary, files=files)


def refusals(events: list[dict[str, Any]]) -> list[BinaryRefused]:
    return [unpack(BinaryRefused, each) for each in events if each["type"] == "binary_refused"]


def heaps(shared: Any) -> list[int]:
    """The addresses of the heaps that the timer maps."""
    return [entry[1] for entry in shared.log if entry[0] == "rw" and entry[1] in HEAPS.values()]


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> KeptBinary:
    events, _ = judged(ranked(benchmarks=SIZES), tmp_path_factory.mktemp("first"))
    return binary_of(events)


def test_a_kept_binary_is_replayed_and_checked_without_the_submissions_process(
    tmp_path: Path, binary: KeptBinary
) -> None:
    events, shared = judged(ranked("raise ValueError", benchmarks=SIZES, binary=binary), tmp_path)

    found = cases(events)
    assert [case.verdict for case in found] == [Verdict.ACCEPTED] * 2
    assert found[0].timing.audit.level is TrustLevel.REPLAYED
    assert found[0].checks > 4
    # Its table is where it was, and nothing but the timer has met the binary.
    tables = {entry[1] for entry in shared.log if entry[0] == "product"}
    assert len(tables) == 1
    assert tables.pop() in kept.read(binary).heap
    assert [event["name"] for event in events if event["type"] == "stage_end"] == ["import", "ranked"]
    assert not refusals(events)


def test_a_replayed_binary_is_kept_again(tmp_path: Path, binary: KeptBinary) -> None:
    events, _ = judged(ranked(benchmarks=SIZES, binary=binary), tmp_path)

    assert [each.sha256 for each in binary_of(events).files] == [each.sha256 for each in binary.files]


def test_two_binaries_of_the_same_addresses_fight_each_with_its_own_memory(
    tmp_path: Path, binary: KeptBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 0.0)
    monkeypatch.setattr(match, "LONGEST_ROUND_S", 600.0)  # a busy machine ends no round
    spec = ranked(benchmarks=SIZES, binary=binary, rival=RIGHT, rival_binary=replace(binary, run=8))
    events, shared = judged(spec, tmp_path)

    assert (duel_of(events).verdict, duel_of(events).blocks) == ("tied", 16)
    assert set(heaps(shared)) == {HEAPS["submission"]}


def test_a_submission_meets_a_binary_beside_its_own_memory(
    tmp_path: Path, binary: KeptBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "LONGEST_S", 0.0)
    spec = ranked(benchmarks=SIZES, rival="raise ValueError", rival_binary=binary)
    events, shared = judged(spec, tmp_path / "a")
    second = binary_of(events, run=9)

    assert (duel_of(events).verdict, duel_of(events).rival_message) == ("tied", "")
    assert sorted(heaps(shared)) == [HEAPS["submission"], HEAPS["rival"]]
    # What was captured beside it lies at other addresses, and meets it again there.
    assert kept.read(second).heap.start == HEAPS["rival"]
    events, _ = judged(
        ranked(benchmarks=SIZES, binary=second, rival=RIGHT, rival_binary=binary), tmp_path / "b"
    )
    assert duel_of(events).verdict == "tied"


def test_memory_that_an_earlier_call_has_changed_is_written_again(
    tmp_path: Path, binary: KeptBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spoils(DataEngine):
        def fire(self, group: int, place: int) -> int | None:
            taken_ns = super().fire(group, place)
            self._numbers(self.table, 1).zero_()
            return taken_ns

    spec = ranked(benchmarks=SIZES, binary=binary)
    events, _ = judged_in_room(spec, tmp_path, hands=DataHands, engine=Spoils)
    assert [case.verdict for case in cases(events)] == [Verdict.ACCEPTED] * 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"benchmarks": [{"size": 9, "seed": 5}, SIZES[1]]}, "differ in form"),
        ({"benchmarks": SIZES[:1]}, "other cases"),
    ],
)
def test_cases_of_another_form_are_not_replayed(
    tmp_path: Path, binary: KeptBinary, change: dict[str, Any], why: str
) -> None:
    events, _ = judged(ranked(binary=binary, **change), tmp_path)

    (refused,) = refusals(events)
    assert why in refused.why
    assert (refused.side, refused.wrong, cases(events)) == ("submission", False, [])


def test_a_binary_that_answers_new_inputs_wrongly_is_refused(tmp_path: Path, binary: KeptBinary) -> None:
    forged = changed(binary, MEMORY, lambda body: body.replace(TWO, THREE))
    events, _ = judged(ranked(benchmarks=SIZES, binary=forged), tmp_path)

    (refused,) = refusals(events)
    assert refused.wrong
    assert "answers a new input wrongly" in refused.why
    assert cases(events) == []


def test_a_binary_that_answers_wrongly_only_when_it_is_timed_is_refused(
    tmp_path: Path, binary: KeptBinary
) -> None:
    class Tires(DataEngine):
        calls = 0

        def fire(self, group: int, place: int) -> int | None:
            taken_ns = super().fire(group, place)
            self.calls += 1
            if self.calls > 12:  # four places of two cases are verified
                self._numbers(self.target, 1).add_(1)
            return taken_ns

        def _product(self, source: int, table: int, target: int, numel: int) -> Callable[[], None]:
            multiply = super()._product(source, table, target, numel)

            def noted() -> None:
                self.target = target
                multiply()

            return noted

    spec = ranked(benchmarks=SIZES, binary=binary)
    events, _ = judged_in_room(spec, tmp_path, hands=DataHands, engine=Tires)

    (refused,) = refusals(events)
    assert (refused.side, refused.wrong, cases(events)) == ("submission", True, [])


def test_answers_of_the_ranked_runs_inputs_in_the_kept_memory_win_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, _ = judged(ranked(REMEMBERS), tmp_path)
    binary = binary_of(events)
    memory = next(
        part.address + part.content.index(MARK) + len(MARK)
        for part in kept.read(binary).parts
        if part.content is not None and MARK in part.content
    )

    def looked_up(graphs: bytes) -> bytes:
        return json.dumps([[memory, *each[1:]] for each in json.loads(graphs)]).encode()

    # A call that looks its answer up is right for an input of the ranked run; a later job draws others.
    monkeypatch.setattr(fake_room, "SECRET", b"another")
    events, _ = judged(ranked(binary=changed(binary, BINARY, looked_up)), tmp_path)

    (refused,) = refusals(events)
    assert refused.wrong
    assert cases(events) == []


def test_a_job_whose_binary_is_refused_while_it_runs_ends_with_the_codes_result(
    binary: KeptBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[JobSpec] = []

    class Refuses(runner.StandardRun):
        """Meets a kept binary as a judge does that cannot replay it; without one it judges the code."""

        def __init__(self, spec: JobSpec, secret: bytes, folder: Path, record: Record, **others: Any) -> None:
            super().__init__(spec, secret, folder, record, **others)
            given.append(spec)
            self._bound = spec.binary, record

        def run(self) -> None:
            binary, record = self._bound
            if binary is None:
                super().run()
                return
            record.take(BinaryRefused(side="submission", why="it answers a new input wrongly", wrong=True))
            record.fail(StageName.RANKED, Verdict.INTERNAL_ERROR, Reason.MACHINE, "refused")

    monkeypatch.setattr(runner, "StandardRun", Refuses)
    monkeypatch.setattr(binaries, "trouble", lambda _spec, _binary, _device: "")
    report = runner.run_job(ranked(benchmarks=SIZES, binary=binary), lambda _event: None)

    assert [each.binary is None for each in given] == [False, True]
    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert [each.name.value for each in report.stages] == ["import", "test", "ranked"]
    (use,) = report.binaries
    assert (use.side, use.run, use.why) == ("submission", 7, "it answers a new input wrongly")
    codes = [[each.code for each in case.timing.audit.findings] for case in report.stages[2].cases]  # type: ignore[union-attr]
    assert all("binary_wrong" in each for each in codes)


@pytest.mark.jobs
def test_code_is_judged_where_calls_are_not_replayed_and_the_reason_is_reported(binary: KeptBinary) -> None:
    report = runner.run_job(ranked(benchmarks=SIZES, binary=binary), lambda _event: None)

    assert report.verdict is Verdict.ACCEPTED
    (use,) = report.binaries
    assert (use.run, use.why) == (7, "calls are replayed on a GPU only")


def test_a_rivals_binary_that_answers_wrongly_ends_the_job_for_its_code(
    tmp_path: Path, binary: KeptBinary
) -> None:
    forged = changed(binary, MEMORY, lambda body: body.replace(TWO, THREE))
    events, _ = judged(ranked(benchmarks=SIZES, rival=RIGHT, rival_binary=forged), tmp_path)

    (refused,) = refusals(events)
    assert (refused.side, refused.wrong) == ("rival", True)
    assert not [event for event in events if event["type"] == "duel"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda b: replace(b, files=b.files[:1]), "binary.memory is missing"),
        (lambda b: replace(b, files=[b.files[0], replace(b.files[1], gz64="AAAA")]), "is damaged"),
        (
            lambda b: replace(b, files=[b.files[0], replace(b.files[1], sha256="0")]),
            "not the file of that run",
        ),
        (lambda b: changed(b, MEMORY, lambda body: body[:-1]), "cannot be read"),
        (lambda b: changed(b, MEMORY, lambda body: body.replace(b'"form":1', b'"form":2')), "cannot be read"),
        (lambda b: changed(b, MEMORY, lambda body: b"[]"), "cannot be read"),
    ],
)
def test_a_damaged_binary_is_refused_before_any_call(
    tmp_path: Path, binary: KeptBinary, damage: Callable[[KeptBinary], KeptBinary], why: str
) -> None:
    events, shared = judged(ranked(benchmarks=SIZES, binary=damage(binary)), tmp_path)

    (refused,) = refusals(events)
    assert why in refused.why
    assert not [entry for entry in shared.log if entry[0] in ("fire", "product")]


def test_memory_over_the_limit_is_not_kept_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MOST_MEMORY_BYTES", 3)
    events, _ = judged(ranked(), tmp_path)

    (found,) = [unpack(Binary, each) for each in events if each["type"] == "binary"]
    assert (found.memory_gz64, found.gz64 != "") == ("", True)
    assert found.why == "its tensors hold more than 0 MiB in 256 parts beside inputs and answers"
    assert cases(events)[0].verdict is Verdict.ACCEPTED


def test_answers_that_are_described_too_deeply_are_not_kept_and_the_verdict_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, deep = kept.form_of, functools.reduce(lambda inner, _: [inner], range(2000), 0)
    # Deeper than any frame: the limit itself depends on the stack of the process that reads or writes.
    monkeypatch.setattr(kept, "form_of", lambda request: [real(request), deep])
    events, _ = judged(ranked(), tmp_path)

    assert [case.verdict for case in cases(events)] == [Verdict.ACCEPTED]
    (found,) = [unpack(Binary, each) for each in events if each["type"] == "binary"]
    assert (found.memory_gz64, "recursion" in found.why) == ("", True)


def test_a_binary_that_is_nested_too_deeply_is_refused(binary: KeptBinary) -> None:
    with pytest.raises(kept.BinaryUnfit, match="cannot be read"):
        kept.read(changed(binary, MEMORY, lambda _body: b"[" * 100_000))


def test_only_memory_in_use_is_kept_and_zeros_are_left_out() -> None:
    memory = torch.zeros(8 * kept.PAGE, dtype=torch.uint8)
    memory[kept.PAGE + 5] = 1
    memory[3 * kept.PAGE] = 2
    memory[6 * kept.PAGE + 7] = 3

    class Map:
        def view(self, address: int, nbytes: int) -> torch.Tensor:
            return memory[address - 1000 : address - 1000 + nbytes]

    heap = range(1000, 1000 + memory.numel())
    live = [[1000 + 6 * kept.PAGE, 1 << 60], [1000, 5 * kept.PAGE], [1000, 8], [0, 10]]
    answer = range(1000 + 3 * kept.PAGE, 1000 + 3 * kept.PAGE + 100)
    found = keeping.parts_of(Map(), heap, live, [answer])  # type: ignore[arg-type]

    places = [(each.address - 1000, each.nbytes, each.content is not None) for each in found]
    page = kept.PAGE
    assert places == [
        (0, page, False),
        (page, page, True),
        (2 * page, page, False),
        (3 * page + 100, 2 * page - 100, False),
        (6 * page, page, True),
        (7 * page, page, False),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": Mode.BENCHMARK, "binary": KeptBinary(run=1)},
        {"mode": Mode.LEADERBOARD, "rival_binary": KeptBinary(run=1)},
    ],
)
def test_a_binary_is_for_ranked_jobs_and_a_rivals_for_a_rival(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="binary"):
        check_spec(quick_spec(RIGHT, **changes))


@pytest.mark.parametrize(
    ("there", "here", "why"),
    [
        ("H100", "H100", ""),
        ("", "H100", "that run was on an unknown device, and this is H100"),
        ("A100", "H100", "that run was on A100, and this is H100"),
        ("", "", "and this is not known"),
        ("H100", "", "and this is not known"),
    ],
)
def test_a_binary_is_replayed_on_the_kind_of_device_that_it_ran_on(there: str, here: str, why: str) -> None:
    spec = ranked(backend=Backend.CUDA, binary=KeptBinary(run=7, device=there))
    found = binaries.Binaries(spec, here)
    assert (found.spec.binary is None) is bool(why)
    assert [why in use.why for use in found.uses] == [True] * bool(why)
