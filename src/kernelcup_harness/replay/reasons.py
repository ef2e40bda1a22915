"""Why calls are not replayed but made, as stable names and in words. Standard library only."""

from __future__ import annotations

from enum import StrEnum


class WhyNot(StrEnum):
    """Why the calls of a job are not replayed. A contestant chooses among these: its own words could tell inputs."""

    NO_WINDOW = "no_window"
    NO_IMAGES = "no_images"
    NO_TIMER = "no_timer"
    WAITS = "waits"
    OTHER_STREAM = "other_stream"
    HOST_FUNCTION = "host_function"
    RUNTIME = "runtime"
    RANDOM = "random"
    OWN_ALLOCATOR = "own_allocator"
    FOREIGN_POINTER = "foreign_pointer"
    HOST_COPY = "host_copy"
    ALLOCATES = "allocates"
    NODE = "node"
    HOST_INPUT = "host_input"
    HOST_OUTPUT = "host_output"
    VARIES = "varies"
    MEMORY = "memory"
    UNSEEN_CODE = "unseen_code"
    REFUSED = "refused"
    FAULTS = "faults"
    ELSEWHERE = "elsewhere"
    STALE = "stale"
    UNKNOWN = "unknown"


WORDS = {
    WhyNot.NO_WINDOW: "this machine cannot map device memory at the same address in several processes",
    WhyNot.NO_IMAGES: "CUPTI is not there or is in use by another tool, so code that is loaded is not seen",
    WhyNot.NO_TIMER: "the timer's process could not use the device",
    WhyNot.WAITS: "it does what is not permitted during capture, such as waiting for the device or reading from it "
    "(.item(), .cpu(), synchronize, torch.tensor(..., device='cuda')); make constants outside of the call",
    WhyNot.OTHER_STREAM: "it works on another stream than PyTorch's current one, and not in step with that; launch "
    "on torch.cuda.current_stream()",
    WhyNot.HOST_FUNCTION: "it queues functions of the host",
    WhyNot.RUNTIME: "it uses JAX, which queues functions of the host",
    WhyNot.RANDOM: "it draws random numbers in the call: the state of PyTorch's generator lies outside of the window",
    WhyNot.OWN_ALLOCATOR: "it uses memory of CuPy's own pool; have CuPy take PyTorch's memory by "
    "cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(...))",
    WhyNot.FOREIGN_POINTER: "a kernel is called with an address that PyTorch did not give out in the thread of the "
    "call, such as memory of cudaMalloc; take memory from PyTorch",
    WhyNot.HOST_COPY: "it copies from or to the host's memory within the call",
    WhyNot.ALLOCATES: "it allocates or frees memory in the stream within the call",
    WhyNot.NODE: "what it queues has parts that cannot be made again in another process, such as events or semaphores",
    WhyNot.HOST_INPUT: "tensors of its input lie in the host's memory",
    WhyNot.HOST_OUTPUT: "it answers with tensors in the host's memory, or with what is no tensor of the device",
    WhyNot.VARIES: "inputs of one case differ in shapes or in values that are no tensors",
    WhyNot.MEMORY: "the window has not enough memory for its tensors",
    WhyNot.UNSEEN_CODE: "code of a kernel was not seen when it was loaded",
    WhyNot.REFUSED: "the timer refused what was captured",
    WhyNot.FAULTS: "its replay failed on the device, which its calls do not: a pointer to other memory may be hidden "
    "in memory",
    WhyNot.ELSEWHERE: "its work is not in what was captured: the replay leaves the answer unwritten, which a call "
    "writes; launch on torch.cuda.current_stream()",
    WhyNot.STALE: "its replay answers new inputs wrongly, which its calls answer rightly: something of the input was "
    "kept when it was captured",
}
"""Each reason but ``unknown``, and what to change where that helps."""


class NotReplayed(Exception):
    """The calls of this job have to be made: they cannot be replayed.

    Args:
        reason: Why.
        detail: Of our own making, such as the words in which the timer refused; empty if there is none.
    """

    def __init__(self, reason: WhyNot, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail

    @property
    def text(self) -> str:
        """One plain sentence."""
        why = WORDS.get(self.reason, "it could not be captured")
        return f"its calls are not replayed: {why}" + (f" ({self.detail})" if self.detail else "")


def named(said: object) -> WhyNot | None:
    """Return the reason that the other side names; it may say anything. None if it names none."""
    if not said:
        return None
    return next((each for each in WhyNot if each == said), WhyNot.UNKNOWN)
