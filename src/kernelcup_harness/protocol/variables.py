"""Environment variables by which the runner tells a process what to do."""

from __future__ import annotations

# This variable makes a contestant work on the stream of its thread.
PER_THREAD = "KERNELCUP_PER_THREAD_STREAM"


# This variable makes a contestant ready to have its calls captured for a timer.
CLEAN_ROOM = "KERNELCUP_CLEAN_ROOM"


# This variable makes a contestant mark the call that a profiler around it is to see.
MARKS_CALLS = "KERNELCUP_MARKS_CALLS"
# This variable has submissions in CUDA C++ compiled with checks, for tests.
CHECKED = "KERNELCUP_CHECKED"
# This variable of a runner names the architectures to compile for where no device is, such as ``8.9;9.0a``.
COMPILE_FOR = "KERNELCUP_HARNESS_COMPILE_FOR"
