"""Enumerations of the protocol: the fixed values in jobs and reports."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """The kind of a job. User interfaces show ``leaderboard`` as "ranked"."""

    TEST = "test"
    BENCHMARK = "benchmark"
    PROFILE = "profile"
    LEADERBOARD = "leaderboard"


class Backend(StrEnum):
    """How the harness answers ``device="cuda"``."""

    CUDA = "cuda"
    """A real GPU."""
    CPU = "cpu"
    """No GPU and no emulation of one: for tasks that are about the processor."""
    EMULATED = "emulated"
    """No GPU; requests for one are answered on the processor, times are not comparable."""


class HarnessKind(StrEnum):
    """Which harness judges."""

    STANDARD = "standard"
    """KernelCup's: judge and contestant are two processes."""
    OWN = "own"
    """The task's own ``eval.py``, under the ``POPCORN_*`` contract."""


class CheckStyle(StrEnum):
    """How the task's ``check_implementation`` is called."""

    DATA_OUTPUT = "data_output"
    """``check_implementation(data, output)``, as in task folders."""
    OUTPUT_REFERENCE = "output_reference"
    """``check_implementation(user_output, reference_output)``, as in single-file tasks."""


class Verdict(StrEnum):
    """The outcome of a run."""

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT_EXCEEDED = "time_limit_exceeded"
    MEMORY_LIMIT_EXCEEDED = "memory_limit_exceeded"
    OUTPUT_LIMIT_EXCEEDED = "output_limit_exceeded"
    REJECTED = "rejected"
    INTERNAL_ERROR = "internal_error"


class StageName(StrEnum):
    """The parts of a run, in the order in which they happen."""

    IMPORT = "import"
    TEST = "test"
    BENCHMARK = "benchmark"
    RANKED = "ranked"
    PROFILE = "profile"


class Reason(StrEnum):
    """Why a run was not accepted: finer than the verdict, and as stable."""

    NONE = ""
    DIFFERS = "differs"
    """The task's checker found an output wrong."""
    RANGE = "range"
    """A number of an output is far outside of the range of the reference's."""
    FORM = "form"
    """An output differs from the reference's in type, structure or shape, or in dtype where that counts."""
    ALIASED = "aliased"
    """An output shares memory with an input, and the task does not allow it."""
    REPEATED = "repeated"
    """Wrong on an input that was answered correctly before."""
    NEAR_TWIN = "near_twin"
    """Wrong on an input that differs from an earlier one in one element."""
    UNFINISHED = "unfinished"
    """An answer was still incomplete after everything that the call had queued on its stream was done."""
    EXCEPTION = "exception"
    IMPORT = "import"
    COMPILE = "compile"
    TOO_LARGE = "too_large"
    """A call returned more bytes of tensors than it may."""
    PROTOCOL = "protocol"
    """A frame on the harness's channel that does not answer the request."""
    CHANNEL_CLOSED = "channel_closed"
    FORGED_TIME = "forged_time"
    """The clock and the witness disagree by more than they can, or a time is impossible."""
    UNTIMED = "untimed"
    """Its calls could not be timed, though those of the judge's own submission could, right afterwards."""
    GUARD_BAND = "guard_band"
    """Memory beside an output was written."""
    WRITES_INPUT = "writes_input"
    """A call writes to a tensor of its input that the reference only reads."""
    EXITED = "exited"
    """The submission's process ended."""
    TIME = "time"
    BUSY = "busy"
    """Not measured: a time limit was exceeded each time, and the machine was busy then."""
    PRINTED = "printed"
    """Too much was written to standard output or error."""
    DISK = "disk"
    """Too much was written to files."""
    HOST_MEMORY = "host_memory"
    DEVICE_MEMORY = "device_memory"
    OWN_HARNESS = "own_harness"
    """The task's own harness reported it."""
    TASK = "task"
    """The task's own generator, reference or checker failed."""
    UNDECIDED = "undecided"
    """It failed, and it cannot be told whether the submission or the task is at fault."""
    MACHINE = "machine"
    """The machine or the harness failed."""
    KILLED = "killed"
    """A process was killed, and not by the judge: the harness's own (``internal_error``), or the submission's."""


class RankingBy(StrEnum):
    """How the times of several benchmarks become one score."""

    LAST = "last"
    MEAN = "mean"
    GEOM = "geom"
    SPEEDUP = "speedup"
    """The mean of the speedups over the baseline."""


class DuelVerdict(StrEnum):
    """The outcome of a duel for the first of the two."""

    FASTER = "faster"
    SLOWER = "slower"
    TIED = "tied"
    """1 is inside of the interval of the ratio."""
    RIVAL_FAILED = ""
    """The second gave a wrong answer, or none."""
    FAILED = "failed"
    """The first gave a wrong answer in turns, or none, though alone its answers were right."""
    NOT_HELD = "not_held"
    """There are no credible times, and neither side can be blamed for it."""


class SandboxPolicy(StrEnum):
    """Whether untrusted code may run without a sandbox."""

    AUTO = "auto"
    """Sandboxed if the machine supports it; the report states which sandbox was used."""
    REQUIRED = "required"
    """Never without a sandbox."""
    NONE = "none"
    """Without a sandbox: to find out whether the sandbox causes a problem."""


class TrustLevel(StrEnum):
    """How far a time is proven."""

    WITNESSED = "witnessed"
    """Captured calls, timed by the device's hardware counters, which no code of the submission can reach."""
    REPLAYED = "replayed"
    """Captured calls, timed where no host code of the submission runs."""
    WALL_CLOCK = "wall clock"
    """The judge's own clock, from before an input is handed out until the whole answer has arrived: an upper bound."""
    SELF_MEASURED = "self-measured"
    """Measured by the task's own harness, beside the submission."""


class Precision(StrEnum):
    """Precisions for which a calibration may have a matrix rate."""

    FP64 = "fp64"
    FP32 = "fp32"
    """Without TF32."""
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    FP4 = "fp4"
    """With block scales."""
    INT8 = "int8"
