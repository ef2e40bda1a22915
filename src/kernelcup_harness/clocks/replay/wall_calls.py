"""Calls by the judge's wall clock whose inputs and answers lie in the window, on a GPU.

The clock runs from before the judge copies an input to where the contestant finds it until the judge has copied the
whole answer: both copies stay on the device. Nothing is subtracted.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from kernelcup_harness.clocks.replay.mapping import Mapping
from kernelcup_harness.core.answer import MOST_TENSORS, Answer, CallFailed, Form, GuardBroken, Pending, opened
from kernelcup_harness.core.requests import Line
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.window.layout import (
    CannotLie,
    Described,
    Differs,
    Layout,
    TooMany,
    described,
    overlap,
    sharing,
)
from kernelcup_harness.window.messages import Call, Called, InputLaid, LayInput
from kernelcup_harness.wire import decode, guards, values
from kernelcup_harness.wire.channel import BrokenProtocol
from kernelcup_harness.wire.messages import Done, Failed, FailureKind, pack, unpack

CALL = pack(Call())


class Taken:
    """The tensors of an answer in the judge's own memory.

    Args:
        answer: Describes the answer.
        copies: The bytes of each tensor, by its offset.
        spans: The addresses of each tensor of the input.
    """

    def __init__(self, answer: Described, copies: dict[int, torch.Tensor], spans: list[range]) -> None:
        self.answer = answer
        self.spans = spans
        self._copies = copies
        self.size = answer.end

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return a tensor's bytes."""
        if not nbytes:
            return torch.empty(0, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")
        return self._copies[offset]


class WindowCalls:
    """Makes the calls of one case, and times them.

    Args:
        layout: Where its inputs lie.
        line: To the contestant.
        mapping: The judge's view of the window.
        heap: Addresses of the contestant's own tensors.
        record_type: Finds classes of answers by name.
        result_bytes: Most bytes that one call may return.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        line: Line,
        mapping: Mapping,
        heap: range,
        record_type: decode.RecordType,
        result_bytes: int,
    ) -> None:
        self._layout = layout
        self._line = line
        self._mapping = mapping
        self._heap = heap
        self._record_type = record_type
        self._result_bytes = result_bytes
        self._count = 0
        self._last: dict[int, tuple[Any, Described]] = {}
        """What the contestant said last of its answer, by place, and what was read of it."""
        self._views: dict[tuple[int, int], torch.Tensor] = {}

    def timed(self, data: Any, form: Form | None, *, timeout_s: float, profile: bool = False) -> Pending:
        """Call once; return what has arrived. Raise what the channel raises."""
        assert not profile, "profiles are made through the host's memory"
        until = time.monotonic() + timeout_s
        self._count += 1
        at = self._count % self._layout.places
        copies = self._prepared(data, form, at, timeout_s)
        pattern = self._patterned(at)
        self._mapping.settle()
        begin = time.perf_counter_ns()
        for target, source in copies:
            target.copy_(source)
        self._mapping.settle()
        frame = self._line.reply(CALL, timeout_s=max(0.0, until - time.monotonic()))
        answer, taken = self._taken(frame, at, form)
        self._mapping.settle()
        wall_ns = float(time.perf_counter_ns() - begin)
        if answer is None:
            return failed(unpack(Failed, frame), wall_ns)
        self._spoil(answer, at)
        called = unpack(Called, frame)
        return Pending(
            reply=Done(ns=called.ns, tree=answer.tree, table=answer.table),
            wall_ns=wall_ns,
            most_tensors=self._most_tensors(form),
            memory=Taken(answer, taken, self._layout.spans(at)),
            check_bands=partial(self._check_bands, at, pattern),
        )

    def _prepared(
        self, data: Any, form: Form | None, at: int, timeout_s: float
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Have the tensors of an input made at a place; return the copies that write it there. Raise ``TaskFault``."""
        laid = self._layout
        in_place, answer = (form.in_place, form.described) if form is not None else (False, None)
        request = LayInput(tree=laid.tree, table=laid.table_at(at), in_place=in_place, answer=answer)
        self._line.ask(request, InputLaid, timeout_s=timeout_s)
        try:
            return laid.copies(data, at, self._mapping.view)
        except Differs as error:
            text = "inputs of one case differ in form: this task cannot be timed on a GPU"
            raise TaskFault(text) from error

    def open(self, pending: Pending) -> Answer:
        """Decode what has arrived. Raise :class:`CallFailed` or ``BrokenProtocol``."""
        answer, taken = opened(pending, self._record_type), pending.memory
        assert isinstance(taken, Taken)
        return replace(answer, shared_inputs=sharing(taken.answer, taken.spans))

    @staticmethod
    def _most_tensors(form: Form | None) -> int:
        return max(MOST_TENSORS, form.tensors if form is not None else 0)

    def _taken(
        self, frame: dict[str, Any], at: int, form: Form | None
    ) -> tuple[Described | None, dict[int, torch.Tensor]]:
        """Copy an answer; return its description and the copies. None for a failure, which is raised later."""
        if frame.get("type") == Failed.type:
            return None, {}
        answer = self._described(frame.get("answer"), at, form)
        copies = {
            entry["offset"]: self._view(address, entry["nbytes"]).clone()
            for entry, address in zip(answer.table, answer.addresses, strict=True)
            if entry["nbytes"]
        }
        return answer, copies

    def _described(self, said: Any, at: int, form: Form | None) -> Described:
        # Mostly the same as before: reading it again would take longer than comparing it.
        with suppress(RecursionError):
            if at in self._last and self._last[at][0] == said:
                return self._last[at][1]
        try:
            answer = described(
                said,
                inside=[self._heap, *self._layout.spans(at)],
                device=self._mapping.device,
                most_bytes=self._result_bytes,
                most=self._most_tensors(form),
            )
        except CannotLie as error:
            text = f"the call returned {error}, which is not on the device"
            raise CallFailed(FailureKind.OUTPUT, text) from error
        except TooMany as error:
            raise CallFailed(FailureKind.OUTPUT, f"the call returned {error}") from error
        except values.TooLarge as error:
            raise CallFailed(FailureKind.TOO_LARGE, f"the call returned {error}") from error
        except values.BadTree as error:
            raise BrokenProtocol(str(error)) from error
        self._last[at] = said, answer
        return answer

    def _view(self, address: int, nbytes: int) -> torch.Tensor:
        key = address, nbytes
        if key not in self._views:
            self._views[key] = self._mapping.view(address, nbytes)
        return self._views[key]

    def _patterned(self, at: int) -> torch.Tensor:
        """Write a new pattern around the writable inputs of a place, and return it."""
        pattern = self._pattern()
        for address, nbytes in self._layout.bands(at):
            guards.repeat(self._view(address, nbytes), pattern)
        return pattern

    def _pattern(self) -> torch.Tensor:
        pattern = torch.frombuffer(bytearray(os.urandom(guards.POISON_BYTES)), dtype=torch.uint8)
        return pattern.to(self._view(self._heap.start, 1).device)

    def _spoil(self, answer: Described, at: int) -> None:
        """Overwrite an answer where the contestant has it, so that it cannot be given again."""
        pattern, spans = self._pattern(), self._layout.spans(at)
        for entry, address in zip(answer.table, answer.addresses, strict=True):
            if entry["nbytes"] and not any(overlap(address, entry["nbytes"], span) for span in spans):
                guards.repeat(self._view(address, entry["nbytes"]), pattern)

    def _check_bands(self, at: int, pattern: torch.Tensor, _gaps: list[tuple[int, int]]) -> None:
        for address, nbytes in self._layout.bands(at):
            if not guards.holds(self._view(address, nbytes), pattern):
                raise GuardBroken("memory beside an output was written")


def failed(reply: Failed, wall_ns: float) -> Pending:
    """Return what has arrived of a call that has failed."""
    return Pending(
        reply=reply,
        wall_ns=wall_ns,
        most_tensors=0,
        memory=Taken(Described(None, [], [], 0, []), {}, []),
        check_bands=lambda _gaps: None,
    )
