"""The timeline of a traced call as a picture."""

from __future__ import annotations

import base64
import gzip
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from kernelcup.reporting import timeline
from kernelcup_harness.profile import torch_trace


def event(name: str, start: float, lasts: float, *, kind: str = "kernel", row: int = 7) -> dict[str, Any]:
    """An event of a trace."""
    return {"ph": "X", "cat": kind, "name": name, "ts": start, "dur": lasts, "tid": row}


def packed(body: object) -> str:
    """A trace as a report has it."""
    return base64.b64encode(gzip.compress(json.dumps(body).encode())).decode()


def trace(*events: dict[str, Any]) -> str:
    """A trace of these events."""
    return packed({"traceEvents": list(events)})


def test_what_the_device_did_is_drawn_by_stream() -> None:
    drawn = timeline.picture(
        trace(
            event("aten::mm", 0, 500, kind="cpu_op"),
            event("_Z3fooPf", 100, 20),
            event("Memcpy", 120, 10, kind="gpu_memcpy", row=8),
        )
    )
    assert drawn.count("<rect") == 2
    assert 'aria-label="2 activities on 2 streams in 30.0 µs"' in drawn
    assert "foo" in drawn
    assert ": 20.0 µs from 0.0 µs</title>" in drawn


def test_a_name_stands_in_its_bar_as_far_as_there_is_room() -> None:
    events = [event("reduce_kernel", 0, 40), event("k" * 50, 40, 20), event("tiny", 60, 1)]
    labels = re.findall(r'<text class="name"[^>]*>([^<]*)<', timeline.picture(trace(*events)))
    assert labels[0] == "reduce_kernel"
    assert re.fullmatch("k{20,48}…", labels[1])
    assert len(labels) == 2


def test_where_no_device_took_part_the_outermost_work_of_the_host_is_drawn() -> None:
    found = timeline.picture(trace(event("outer", 0, 10, kind="cpu_op"), event("inner", 2, 3, kind="cpu_op")))
    assert found.count("<rect") == 1
    assert "outer" in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        packed([]),
        packed({"traceEvents": 5}),
        trace(event("k", -1, 5), event("k", 1, float("inf")), {"cat": "kernel"}),
    ],
    ids=["empty", "no base64", "a list", "no events", "no times"],
)
def test_of_what_is_no_trace_nothing_is_drawn(text: str) -> None:
    assert timeline.picture(text) == ""


def test_a_name_in_a_trace_is_text() -> None:
    assert "<script>" not in timeline.picture(trace(event("<script>", 1, 1)))


def test_a_trace_without_kernels_says_why() -> None:
    kernel, host = (SimpleNamespace(device_type=SimpleNamespace(name=name)) for name in ("CUDA", "CPU"))
    assert torch_trace.lacking([kernel, host], "x") == ""
    assert "No kernel was recorded" in torch_trace.lacking([host], "x")
    assert "more than 4 MiB" in torch_trace.lacking([kernel], "")
