"""Why calls are made and not replayed, as stable names and in words. Standard library only."""

from __future__ import annotations

from enum import StrEnum

from kernelcup_harness.window import graph_data


class WhyNot(StrEnum):
    """Why the calls of a job are not replayed. A contestant picks one of these: text of its own could leak inputs."""

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
    PLACES = "places"
    MEMORY = "memory"
    UNSEEN_CODE = "unseen_code"
    REFUSED = "refused"
    FAULTS = "faults"
    ELSEWHERE = "elsewhere"
    STALE = "stale"
    UNKNOWN = "unknown"


WORDS = {
    WhyNot.NO_WINDOW: "this machine cannot map device memory at the same address in several processes",
    WhyNot.NO_IMAGES: "CUPTI is missing or used by another tool, so the code of kernels cannot be recorded",
    WhyNot.NO_TIMER: "the timer's process could not use the device",
    WhyNot.WAITS: "it does something that is not permitted during capture, such as waiting for the device or reading "
    "from it (.item(), .cpu(), synchronize, torch.tensor(..., device='cuda')); make constants outside of the call",
    WhyNot.OTHER_STREAM: "it works on another stream than PyTorch's current one and does not synchronize with it; "
    "launch on torch.cuda.current_stream()",
    WhyNot.HOST_FUNCTION: "it queues functions of the host",
    WhyNot.RUNTIME: "it uses JAX, which queues functions of the host",
    WhyNot.RANDOM: "it draws random numbers in the call: the state of PyTorch's generator lies outside of the window",
    WhyNot.OWN_ALLOCATOR: "it uses memory of CuPy's own pool; let CuPy use PyTorch's memory with "
    "cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(...))",
    WhyNot.FOREIGN_POINTER: "a kernel is called with an address that PyTorch did not allocate in the thread of the "
    "call, for example memory of cudaMalloc; allocate with PyTorch",
    WhyNot.HOST_COPY: "it copies from or to host memory within the call",
    WhyNot.ALLOCATES: "it allocates or frees memory within the call; use kc_scratch or PyTorch's memory",
    WhyNot.NODE: "it queues operations that cannot be rebuilt in another process, for example events or semaphores",
    WhyNot.HOST_INPUT: "tensors of its input lie in host memory",
    WhyNot.HOST_OUTPUT: "it answers with tensors in host memory, or with values that are not tensors on the device",
    WhyNot.VARIES: "inputs of one case differ in shapes, or in values that are not tensors",
    WhyNot.PLACES: "its calls do other work at another address of the input: other kernels, sizes, or answers",
    WhyNot.MEMORY: "the window has not enough memory for its tensors",
    WhyNot.UNSEEN_CODE: "the code of a kernel was not recorded when it was loaded",
    WhyNot.REFUSED: "the timer refused what was captured",
    WhyNot.FAULTS: "its replay failed on the device although its calls do not: memory may hold a pointer to "
    "memory outside of the window",
    WhyNot.ELSEWHERE: "its work was not captured: a call writes the answer, but the replay leaves it unwritten; "
    "launch on torch.cuda.current_stream()",
    WhyNot.STALE: "its replay answers new inputs wrongly although its calls answer them correctly: something of "
    "the input was kept when it was captured",
}
"""Each reason except ``unknown``, with the change that helps, if there is one."""


SAYINGS = {
    # Of CUDA C++, whose failures name the call.
    "cudaMalloc": WhyNot.ALLOCATES,
    "cudaFree": WhyNot.ALLOCATES,
    "legacy stream": WhyNot.OTHER_STREAM,
    "unjoined work": WhyNot.OTHER_STREAM,
    "uncaptured work": WhyNot.OTHER_STREAM,
    "CaptureImplicit": WhyNot.OTHER_STREAM,
    "CaptureUnjoined": WhyNot.OTHER_STREAM,
    "CaptureIsolation": WhyNot.OTHER_STREAM,
    "when stream is capturing": WhyNot.WAITS,
    "during CUDA graph capture": WhyNot.WAITS,
    "CaptureUnsupported": WhyNot.WAITS,
}
"""Parts of the messages of the driver, PyTorch and CuPy when calls cannot be captured; the first match counts."""


class NotReplayed(Exception):
    """The calls of this job have to be made: they cannot be replayed.

    Args:
        reason: The reason.
        detail: Text of the harness's own, for example the timer's refusal; empty if there is none.
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


def of_capture(error: BaseException) -> WhyNot:
    """Return why calls could not be captured, by the first error that was raised."""
    # Exceptions are user code: they may have any text, and form a cycle.
    try:
        chain = [error]
        while (before := chain[-1].__context__) is not None and before not in chain:
            chain.append(before)
        text = str(chain[-1])
    except BaseException:
        return WhyNot.UNKNOWN
    return next((reason for saying, reason in SAYINGS.items() if saying in text), WhyNot.UNKNOWN)


MOST_EXPORT_BYTES = graph_data.HEAD.size + graph_data.MOST_HEAD_BYTES + graph_data.MOST_IMAGE_BYTES
"""The largest capture that a timer takes."""


class Failure(StrEnum):
    """Stable names of failures."""

    BAD_REQUEST = "bad_request"
    BAD_GRAPH = "bad_graph"
    NOT_REBUILT = "not_rebuilt"
    NO_WINDOW = "no_window"
    DEVICE_FAULT = "device_fault"
    CLOCK = "clock"
    NOT_SEEN = "not_seen"
    """The witness could not see all that the device did."""
    FORGED = "forged"
    """An end time was written again after it had been read: only the replayed device code can do that."""


class DeviceError(RuntimeError):
    """A device refused a call.

    Args:
        text: What it refused, and why.
        ends_process: Whether this process cannot use the device any more.
    """

    def __init__(self, text: str, *, ends_process: bool) -> None:
        super().__init__(text)
        self.ends_process = ends_process


class NoWindow(RuntimeError):
    """This machine cannot map device memory at a chosen address."""


class NotRebuilt(RuntimeError):
    """An exported graph cannot be replayed; the text names the part."""


class ClockTrouble(RuntimeError):
    """The device did not do what the clock needs: a fault, a hang, or stamps that changed afterwards."""


class StampForged(RuntimeError):
    """An end time changed after it had been read."""


class NoCounters(RuntimeError):
    """The hardware's counters cannot be read here."""
