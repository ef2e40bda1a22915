"""A timeline of one call by PyTorch's own profiler, which needs no rights to the GPU's counters."""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from kernelcup_harness.wire.messages import Profiled

MOST_TRACE_BYTES = 4 << 20
MOST_TABLE = 256 << 10


class TorchTrace:
    """Profiles a call with ``torch.profiler``."""

    def inside(self, call: Callable[[], Any], settle: Callable[[], None]) -> Profiled:
        """Make a call once to warm up and once under the profiler; return its table and Chrome trace."""
        import torch
        from torch.profiler import ProfilerActivity

        activities = [ProfilerActivity.CPU]
        real_gpu = os.environ.get("KERNELCUP_BACKEND") == "cuda"
        if real_gpu:
            activities.append(ProfilerActivity.CUDA)
        call()
        settle()
        recorded = torch.profiler.profile(activities=activities, record_shapes=True)
        with silent():
            recorded.__enter__()
        try:
            call()
            settle()
        finally:
            with silent():
                recorded.__exit__(None, None, None)
        order = "self_cuda_time_total" if real_gpu else "self_cpu_time_total"
        table = recorded.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=70)
        trace = packed_trace(recorded)
        lacks = lacking(recorded.events(), trace) if real_gpu else ""
        return Profiled(text=(lacks + table)[:MOST_TABLE], trace=trace)


def lacking(events: Iterable[Any], trace: str) -> str:
    """Return what a trace on a GPU lacks and why, as lines before its table; empty if it lacks nothing."""
    lines = []
    if not any(each.device_type.name == "CUDA" for each in events):
        lines.append(
            "No kernel was recorded: the call launched none, or CUPTI gave PyTorch's profiler nothing, as where "
            "another tool of the machine uses it.\n"
        )
    if not trace:
        lines.append(f"The trace has more than {MOST_TRACE_BYTES >> 20} MiB packed and was left out.\n")
    return "".join(lines)


def packed_trace(recorded: Any) -> str:
    """Return the trace of a profile, gzip and base64; empty if it is too large."""
    trace = Path(os.environ["TMPDIR"], f"trace-{os.getpid()}.json")  # ranks have one folder
    recorded.export_chrome_trace(str(trace))
    packed = gzip.compress(trace.read_bytes(), mtime=0)
    with contextlib.suppress(OSError):
        trace.unlink()
    return base64.b64encode(packed).decode() if len(packed) <= MOST_TRACE_BYTES else ""


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Drop what is written to standard error, by C++ libraries too: it does not come from the submission."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
        sys.stderr.flush()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
