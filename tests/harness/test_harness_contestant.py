"""The untrusted process's side of calls: what a contestant answers to the judge's frames."""

from __future__ import annotations

import dataclasses
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from inside import closing_memory, serve, working_in

from kernelcup_harness.contestant import inputs, main
from kernelcup_harness.core.answer import NOISE, Answer, CallFailed, Form
from kernelcup_harness.core.call import Caller
from kernelcup_harness.doubt import overhead
from kernelcup_harness.wire import decode, devices, values
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import Done, InputLayout


class Bench:
    """A judge's caller with a real contestant, which is a thread."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, max_bytes=16 << 20, max_fds=0)
        self._other = Channel(theirs, max_bytes=16 << 20)
        self.caller = Caller(self.channel, decode.importing_record_type, 1 << 20)
        self._thread = threading.Thread(target=serve, args=(self._other,))
        self._thread.start()
        assert self.channel.receive(60.0)["type"] == "hello"

    def load(self, text: str) -> dict[str, Any]:
        """Have a submission imported; return the reply."""
        Path("submission.py").write_text(text)
        self.channel.send({"type": "load", "file": "submission.py"})
        return self.channel.receive(60.0)

    def call(
        self, data: Any, expected: Any = None, *, in_place: bool = False, private: Iterable[int] = ()
    ) -> Answer:
        """Call once; the form of the answer is that of ``expected``."""
        form = Form.of(expected, in_place=in_place) if expected is not None else None
        form = form and dataclasses.replace(form, private=frozenset(private))
        return self.caller.call(data, form, timeout_s=60.0)

    def close(self) -> None:
        """End the contestant."""
        self.channel.close()
        self._thread.join()
        self._other.close()
        self.caller.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A judge and a contestant in a folder of its own."""
    with working_in(tmp_path, {"submission.py": ""}), closing_memory():
        made = Bench()
        yield made
        made.close()


DOUBLE = "def custom_kernel(data):\n    return data * 2\n"


def test_a_submission_is_called_with_the_input_and_its_answer_comes_back(bench: Bench) -> None:
    assert bench.load(DOUBLE)["type"] == "ready"
    for number in range(6):
        answer = bench.call(torch.full((3,), float(number)))
        assert answer.output.tolist() == [2.0 * number] * 3
        assert 0 < answer.own_ns <= answer.wall_ns


@pytest.mark.parametrize("returned", ["", "return data * 7", "return object()"])
def test_an_answer_in_the_input_is_read_from_there_whatever_is_returned(bench: Bench, returned: str) -> None:
    bench.load(f"def custom_kernel(data):\n    data.add_(1)\n    {returned}\n")
    answer = bench.call(torch.zeros(3), torch.zeros(3), in_place=True)
    assert answer.output.tolist() == [1.0] * 3


def test_a_call_that_returns_nothing_has_no_answer_where_none_is_in_the_input(bench: Bench) -> None:
    bench.load("def custom_kernel(data):\n    data.add_(1)\n")
    assert bench.call(torch.zeros(3), torch.zeros(3)).output is None


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("return data['x'], data['y']", [True, False]),
        ("return data['x'].view(2, 1).view(2), data['x'].flip(0)", [True, False]),
        ("return data['x'].clone(), data['y'].mul_(5)", [False, False]),
        ("return data['x'] * 2, data['x'].unsqueeze(1)", [False, True]),
    ],
)
def test_a_part_of_an_answer_that_lies_in_a_private_input_is_lost(
    bench: Bench, body: str, lost: list[bool]
) -> None:
    """The judge writes over it when the call has returned: nothing that the contestant says decides."""
    bench.load(f"def custom_kernel(data):\n    {body}\n")
    data = {"x": torch.ones(2), "y": torch.ones(3)}
    answer = bench.call(data, (torch.ones(2), torch.ones(2)), private=[0])
    noise = torch.full((4,), NOISE, dtype=torch.uint8).view(torch.float32)
    assert answer.overwritten
    assert [bool((part == noise).all()) for part in answer.output] == lost


def test_a_transposed_answer_is_laid_out_densely(bench: Bench) -> None:
    bench.load("def custom_kernel(data):\n    return data.t()\n")
    data = torch.arange(6.0).reshape(2, 3)
    answer = bench.call(data)
    assert torch.equal(answer.output, data.t())
    assert answer.output.is_contiguous()


def test_the_own_time_of_a_call_includes_the_layout_of_its_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a lazy transposition would be work that nobody times."""
    now, real = [0], values.contiguous

    def laid(value: Any) -> Any:
        now[0] += 700
        return real(value)

    monkeypatch.setattr(main.time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(values, "contiguous", laid)
    bench.load(DOUBLE)
    answer = bench.caller.timed(torch.ones(3), None, timeout_s=60.0)
    assert isinstance(answer.reply, Done)
    assert answer.reply.ns == 700.0


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("raise ValueError('no')", "exception", "ValueError: no"),
        ("raise MemoryError", "host_memory", "MemoryError"),
        ("raise SystemExit(3)", "exception", "SystemExit: 3"),
        ("return object()", "output", "output"),
        ("import torch; return torch.zeros(1 << 20)", "too_large", "returned"),
        ("import torch; raise torch.OutOfMemoryError('no more')", "memory", "no more"),
    ],
)
def test_a_call_that_fails_says_how_and_the_next_is_made(
    bench: Bench, body: str, kind: str, text: str
) -> None:
    bench.load(f"def custom_kernel(data):\n    if data.sum() == 0:\n        return data\n    {body}\n")
    with pytest.raises(CallFailed, match=text) as failure:
        bench.call(torch.ones(3))
    assert failure.value.kind == kind
    assert bench.call(torch.zeros(3)).output.tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("x = 1\n", "compile", "defines no function custom_kernel; it defines no function at all"),
        (
            "from math import floor\ndef kernel(data): ...\ndef _own(): ...\n",
            "compile",
            "defines no function custom_kernel; it defines kernel",
        ),
        ("def custom_kernel(\n", "compile", "SyntaxError"),
        ("import no_such_library\n", "import", "ModuleNotFoundError"),
        ("raise SystemExit\n", "import", "SystemExit"),
    ],
)
def test_an_import_that_fails_says_how(bench: Bench, text: str, kind: str, said: str) -> None:
    reply = bench.load(text)
    assert (reply["type"], reply["kind"]) == ("fail", kind)
    assert said in reply["text"]
    assert str(Path(main.__file__).parent) not in reply["text"]


# The kernel that computes nothing


def test_a_kernel_that_computes_nothing_answers_in_the_agreed_form(bench: Bench) -> None:
    expected = {"x": torch.ones(3, 2), "n": 5}
    form = Form.of(expected, in_place=False)
    overhead.use_noop(bench.caller, form)
    for _ in range(2):
        answer = bench.caller.call(torch.ones(100), form, timeout_s=60.0).output
        assert (answer["x"].shape, answer["x"].dtype, answer["n"]) == ((3, 2), torch.float32, 0)


def test_a_kernel_that_computes_nothing_is_gone_with_the_memory_of_its_calls(bench: Bench) -> None:
    overhead.use_noop(bench.caller, None)
    assert bench.call(torch.ones(3)).output is None
    bench.caller.forget(timeout_s=60.0)
    with pytest.raises(CallFailed):
        bench.call(torch.ones(3))


def test_numbers_and_texts_of_an_input_are_told_with_the_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reaches the contestant when it makes the tensors is not timed: 9 ms of 47 were left of a task of numbers."""
    early: list[Any] = []
    describe = inputs.Slot.describe

    def noted(self: inputs.Slot, layout: InputLayout) -> None:
        describe(self, layout)
        early.append((self.data["factor"], self.data["more"]))

    monkeypatch.setattr(inputs.Slot, "describe", noted)
    bench.load("def custom_kernel(data):\n    return data['x'] * data['factor'] + len(data['more'][0])\n")
    for factor, text in ((3, "ab"), (5, "")):
        data = {"x": torch.ones(2), "factor": factor, "more": (text, torch.zeros(1), [1.5, None, True])}
        assert bench.call(data).output.tolist() == [factor + len(text)] * 2
    assert [(each[0], each[1][0], each[1][2]) for each in early] == [(None, None, [None] * 3)] * 2


def test_memory_that_is_forgotten_is_unmapped_in_both_processes(bench: Bench) -> None:
    bench.load(DOUBLE)
    held = []
    for calls in (1, 8):
        for _ in range(calls):
            bench.call(torch.ones(3))
        bench.caller.forget(timeout_s=60.0)
        # Only the memory of answers stays, which the next call uses again.
        held.append(len(os.listdir("/proc/self/fd")))
    assert held[0] == held[1]
    assert bench.call(torch.ones(3)).output.tolist() == [2.0] * 3


# Profiles


@pytest.mark.dear("torch's profiler is imported and writes a trace")
def test_a_profile_has_a_table_and_a_trace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    bench.load(DOUBLE)
    answer = bench.caller.call(torch.ones(3), None, timeout_s=60.0, profile=True)
    assert answer.profile is not None
    assert "aten::mul" in answer.profile
    assert answer.trace
    assert answer.output is None
    assert not list(tmp_path.glob("trace.json"))


# Polling


@pytest.mark.parametrize(("gpu", "cores", "polls"), [(True, 4, True), (True, 3, False), (False, 16, False)])
def test_a_process_polls_beside_a_gpu_where_there_are_cores_enough(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, cores: int, polls: bool
) -> None:
    monkeypatch.setattr(devices, "on_gpu", lambda: gpu)
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda _pid: set(range(cores)))
    assert (devices.busy_s() > 0) is polls


@pytest.mark.parametrize(("backend", "available"), [("cpu", True), ("cuda", False), ("", True)])
def test_without_a_real_gpu_nothing_is_on_one(
    monkeypatch: pytest.MonkeyPatch, backend: str, available: bool
) -> None:
    monkeypatch.setenv("KERNELCUP_BACKEND", backend)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert not devices.on_gpu()
