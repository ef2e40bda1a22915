"""The harness's interface: one :class:`JobSpec` in, one :class:`RunReport` out.

Both are plain JSON. Decoding is strict: an unknown key, a missing key or a value of the wrong
type raises :class:`ProtocolError` with the dotted path of the faulty value.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from kernelcup_harness import estimates

PROTOCOL_VERSION = 1
FEWEST_SEEDS = 1 << 20
"""Smallest allowed ``seeds_below``: fewer seeds could be tried one by one."""

# The types of a case value; lists hold the same types.
CaseValue = int | float | bool | str | list["CaseValue"]
Parameters = dict[str, Any]


class ProtocolError(ValueError):
    """A message does not have the agreed form. The text starts with the dotted path."""


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
    FORM = "form"
    """An output differs from the reference's in type, structure or shape, or in dtype where that counts."""
    ALIASED = "aliased"
    """An output shares memory with an input or another output, and the task does not say it may."""
    REPEATED = "repeated"
    """Wrong on an input that was answered correctly before."""
    NEAR_TWIN = "near_twin"
    """Wrong on an input that differs from an earlier one in one element of each tensor."""
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
    GUARD_BAND = "guard_band"
    """Memory beside an output was written."""
    WRITES_INPUT = "writes_input"
    """A call writes to a tensor of its input that the reference only reads."""
    EXITED = "exited"
    """The submission's process ended."""
    TIME = "time"
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
    MACHINE = "machine"
    """The machine or the harness failed."""


class SandboxPolicy(StrEnum):
    """Whether untrusted code may run without a sandbox."""

    AUTO = "auto"
    """Sandboxed if the machine supports it; the report states which sandbox was used."""
    REQUIRED = "required"
    """Never without a sandbox."""
    NONE = "none"
    """Without a sandbox: to find out whether the sandbox causes a problem."""


class NotCaptured(StrEnum):
    """Why calls could not be captured in a CUDA graph, as the contestant reports it; used within a run only."""

    WAITS = "waits"
    ELSEWHERE = "elsewhere"
    HOST_FUNCTION = "host_function"
    RUNTIME = "runtime"
    STALE = "stale"
    UNKNOWN = "unknown"


class TrustLevel(StrEnum):
    """How far a time is proven."""

    REPLAYED = "replayed"
    """Captured calls, timed where no code of the submission runs."""
    WALL_CLOCK = "wall clock"
    """The judge's own clock, from before an input is handed out until the whole answer has arrived: an upper bound."""
    AUDITED = "audited"
    """The clocks of the submission and of the judge agree."""
    BOUNDED = "bounded"
    """Bounded by the judge's clock: the ranked time is at least what calls one after another took."""
    SELF_MEASURED = "self-measured"
    """Claimed by the submission's clock only."""


BEST_LEVELS = (TrustLevel.REPLAYED, TrustLevel.AUDITED)
"""The levels that a leaderboard accepts if it requires audited times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Wall-clock limits in seconds, one for each stage, and caps in bytes."""

    import_s: float = 180.0
    test_s: float = 180.0
    benchmark_s: float = 180.0
    ranked_s: float = 180.0
    memory_bytes: int = 16 << 30
    """Host memory of the contestant and all its children."""
    output_bytes: int = 16 << 20
    """Standard output and error, each; more than this ends the run."""
    kept_output_bytes: int = 32 << 10
    """How much of each is kept in the report."""
    result_bytes: int = 8 << 30
    """All tensors that one call may return, together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasureRules:
    """How often a case is called."""

    checks: int = 1
    """Checked calls for each test case, each on a fresh input after the first."""
    warmups: int = 3
    min_samples: int = 5
    max_samples: int = 100
    relative_error: float = 0.005
    """Stop once half the width of the 95 % interval is below this share of the time, or 50 ns; 0: never."""
    case_budget_s: float = 8.0
    """Stop a case after this much wall-clock time; if warm-ups and checks used it up, after two samples."""
    stage_budget_s: float = 6.0
    """Wall-clock time for all cases of a timed stage together, calibration and audits included."""
    repeats: int = 1
    """Calls of a timed case that repeat an earlier input at random moments: checked, not timed."""
    twins: int = 2
    """Calls of a run, at least one in each case, whose input differs from an earlier one in one element of each
    tensor: checked, not timed."""
    clean_room: bool = False
    """Whether timed calls on a GPU are captured, then timed where no code of the submission runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """The least work of a case, as its task declares it."""

    bytes: float | None = None
    """Bytes that must be read."""
    written: float | None = None
    """Bytes that must be written; they may end in the cache, see :mod:`kernelcup_harness.physics`."""
    flops: float | None = None
    """Floating-point operations that must be done."""
    precision: str = ""
    """One of ``physics.Precision``, for example ``fp16``; empty for the fastest that was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFacts:
    """The capabilities of a device, from the calibration of its machine."""

    copy_bytes_per_s: float
    """Largest measured rate of its memory, reads and writes together; 0 for no bound."""
    matrix_flops_per_s: dict[str, float] = field(default_factory=dict)
    """Largest rate of matrix products by precision."""
    l2_bytes: float = 0.0
    """Size of the last cache before the memory, 0 if it is not known."""
    launch_ns: float = 0.0
    empty_kernel_ns: float = 0.0
    """Time of an empty kernel as the profiler reports it, 0 if it is not known."""
    canary_ns: float = 0.0
    """Rolling median of the canary kernel, 0 if there is none yet."""
    canary_tolerance: float = 0.02
    """The share by which a canary may differ from its rolling median."""
    noise_share: float = 0.0
    """Standard deviation of the canary between runs, as a share of its time; 0 if it is not known."""
    calibration_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleName:
    """Names one input of a run, which can be made again once the seed is revealed."""

    input: int
    """Index of the input in its case."""
    twin: bool = False
    """Whether one element of it was changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """One sample of a finished run, to be judged again. Needs the run's ``secret_seed``."""

    stage: StageName
    case: int
    """Index of the case in its stage."""
    sample: SampleName


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """Everything that a machine needs to judge one submission once."""

    version: int = PROTOCOL_VERSION
    job_id: str
    mode: Mode
    backend: Backend
    harness: HarnessKind
    sources: dict[str, str]
    """File name to text: the task's files without the submission."""
    submission: str
    submission_name: str = "submission.py"
    reference_module: str = "reference"
    """The module among ``sources`` that has ``generate_input`` and ``check_implementation``."""
    private_files: list[str] = field(default_factory=list)
    """Names in ``sources`` that are withheld from the contestant (reference, checker, own harness)."""
    main: str | None = None
    """The file of the task's own harness, if it has one."""
    check_style: CheckStyle = CheckStyle.DATA_OUTPUT
    tests: list[Parameters] = field(default_factory=list)
    benchmarks: list[Parameters] = field(default_factory=list)
    hidden_tests: list[Parameters] = field(default_factory=list)
    hidden_benchmarks: list[Parameters] = field(default_factory=list)
    ranking_by: str = "last"
    limits: Limits = field(default_factory=Limits)
    rules: MeasureRules = field(default_factory=MeasureRules)
    public_seed: int | None = None
    """The task's ``seed``: given to an own harness as ``POPCORN_SEED`` outside the ranked stage."""
    seeds_below: int | None = None
    """Every seed that is drawn is less than this; None for 63 bits."""
    secret_seed: str | None = None
    """64 hex digits, to repeat a finished run; drawn by the runner when it is absent."""
    multi_gpu: bool = False
    sandbox: SandboxPolicy = SandboxPolicy.AUTO
    near_twins: bool = True
    """False if changing one element of each tensor would break what the task promises about its inputs."""
    aliasing: bool = False
    """Whether outputs may share memory with inputs or each other even if the reference's do not."""
    non_finite: bool = False
    """Whether an element may be NaN or infinite where the reference's is finite."""
    same_dtype: bool = False
    """Whether an output is wrong if its dtype differs from the reference's, even if the checker accepts it."""
    build_scope: str = ""
    """An opaque name of the user, whose builds may be reused on a machine; empty to reuse none."""
    replay: Replay | None = None
    """Judge only this one sample of a finished run."""
    work: list[Work] = field(default_factory=list)
    """The least work of each of ``benchmarks``, in their order; empty if the task declares none."""
    hidden_work: list[Work] = field(default_factory=list)
    """The same for ``hidden_benchmarks``."""
    device: DeviceFacts | None = None
    """The capabilities of the device, from the calibration in force."""
    rival: str | None = None
    """Source of a second submission that is measured in turns with the first (``leaderboard`` only)."""
    rival_name: str = "submission.py"
    """File name of the rival."""
    require_audited: bool = False
    """Whether the ranked times must be audited for the run to count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One wrong element of an output."""

    position: list[int]
    expected: str
    actual: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """How an output differs from the reference's."""

    where: str
    """Path of the tensor or value in the output: ``output``, ``output[1]``, ``output['x']``."""
    wrong: int
    total: int
    nan: int = 0
    """How many of the wrong elements are NaN."""
    infinite: int = 0
    """How many of the wrong elements are infinite."""
    largest_error: float | None
    """Largest absolute difference over the finite elements; None if no wrong element is a finite number."""
    first: list[Difference]
    """The first five wrong positions in row-major order."""
    rule: str
    """When an element counts as wrong, for example ``|actual - expected| > 1e-05 + 1e-05 * |expected|``."""
    shape: list[int] = field(default_factory=list)
    """Shape of the tensor; empty for a value that is no tensor."""
    tiles: list[list[int]] = field(default_factory=list)
    """How many elements are wrong in each part of the tensor, at most 24 rows of 48. Its last dimension goes from left
    to right and all others from top to bottom; a tensor of one dimension is cut into parts that are read row by row."""

    @property
    def kinds(self) -> str:
        """The counts of wrong elements that are not finite, as in ``, 3 NaN``; empty if there are none."""
        counts = {"NaN": self.nan, "infinite": self.infinite}
        return "".join(f", {count} {name}" for name, count in counts.items() if count)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """An observation about a time, shown with it."""

    code: str
    """Stable: ``slope_disagrees``, ``handshake_disagrees``, ``not_armed``, ``handshake_disturbed``, ``below_floor``,
    ``near_floor``, ``empty_floor``, ``throttled``, ``busy_device``, ``not_audited``, ``not_captured``, ``no_time``,
    ``wide_interval``, ``not_replayed``, ``series_longer``."""
    text: str
    """One plain sentence with the figures."""
    quarantines: bool = False
    """Whether the run is kept but not ranked until it has been reviewed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """What the judge's own clock measured for a case. The time of a no-op is subtracted from handshakes; cases that
    are timed by the wall clock have none."""

    captured: bool = False
    """Whether the calls could be captured in a CUDA graph."""
    armed: bool = False
    """Whether the device alone answered the handshakes: then they are precise enough to hold a run back."""
    handshake_ns: float = 0.0
    """First quartile of the times of calls whose input could not be known before."""
    handshake_slack_ns: float = 0.0
    """By how much ``handshake_ns`` may exceed the claim: 1 % of honest cases exceed it by chance."""
    slope_ns: float | None = None
    """Steady-state time of one call in a long series, None if it was not measured."""
    slope_slack_ns: float = 0.0
    """By how much ``slope_ns`` may exceed the claim of a captured case."""
    slope_calls: list[int] = field(default_factory=list)
    """Numbers of calls that were timed together: few and many."""
    slope_walls_ns: list[list[float]] = field(default_factory=list)
    """Wall-clock time of each series, one list for each of ``slope_calls``."""
    noop_ns: float = 0.0
    """Time of a no-op call, measured in turns with the submission's calls."""
    noop_before_ns: float | None = None
    """The same before the submission was imported: with the drift of a machine, the most that is subtracted."""
    score_ns: float
    """The time that is ranked."""
    level: TrustLevel
    """How far the score is proven."""
    findings: list[Finding] = field(default_factory=list)
    """Observations that are shown with the time."""

    @property
    def slopes_ns(self) -> list[float]:
        """Each pair of a short and a long series as nanoseconds a call."""
        if len(self.slope_walls_ns) != 2 or len(self.slope_calls) != 2:
            return []
        return estimates.slopes(self.slope_walls_ns, self.slope_calls)


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Samples of one case in nanoseconds; every statistic is derived from them."""

    samples_ns: list[float]
    """Raw times of single calls: by the judge's wall clock where there is no GPU, else as claimed by the
    contestant's device clock."""
    own_ns: list[float] = field(default_factory=list)
    """The submission's own, unverified times of the same calls, where the samples are the judge's."""
    overhead_ns: float | None = None
    """Time of a call that computes nothing, with an input and an answer of the same size: part of each sample, never
    subtracted. None if it was not measured."""
    wall_ns: list[float] = field(default_factory=list)
    """The judge's wall clock around the same calls, hand-over included."""
    reported_ns: float | None = None
    """The mean that a task's own harness reports; it is the score then."""
    reported: dict[str, float] = field(default_factory=dict)
    """Other figures of the task's own harness: std, err, best, worst, runs."""
    offset_ns: float = 0.0
    """Time of an empty kernel by the same clock; subtracted from the samples."""
    noise_share: float = 0.0
    """Standard deviation between runs on this device as a share, from its calibration; 0 if it is not known."""
    discarded_ns: list[float] = field(default_factory=list)
    """Samples that do not count because the device was throttled."""
    late_ns: list[float] = field(default_factory=list)
    """Samples that do not count because the device had to wait for the host."""
    clocks_mhz: list[float] = field(default_factory=list)
    """Clock of the device at each sample, empty if it is not known."""
    handshakes_ns: list[float] = field(default_factory=list)
    """The judge's raw wall-clock times of handshakes: requests for nothing but the call."""
    audit: Audit | None = None
    """The measurements of the judge's own clock; ranked cases only."""

    @property
    def raw_ns(self) -> float:
        """The samples' mean without the slowest and fastest tenth, offset included."""
        return estimates.robust(self.samples_ns)

    @property
    def read_ns(self) -> float:
        """The contestant's own time, whether or not the samples are the judge's."""
        return estimates.robust(self.own_ns) if self.own_ns else self.raw_ns

    @property
    def claim_ns(self) -> float:
        """The time that the contestant's clock claims, without the offset; never negative."""
        return max(0.0, self.raw_ns - self.offset_ns)

    @property
    def score_ns(self) -> float:
        """The time that is ranked: as reported, as audited, or as claimed."""
        if self.reported_ns is not None:
            return self.reported_ns
        return self.audit.score_ns if self.audit is not None else self.claim_ns

    @property
    def interval_ns(self) -> tuple[float, float] | None:
        """The 95 % interval of :attr:`score_ns`, None if it is not known.

        On a GPU it also covers the variation between processes, of which a run has only one.
        """
        found = self.sampling_interval_ns
        if self.process_error_ns <= 0:
            return found
        return estimates.widened(found, self.score_ns, self.process_error_ns)

    @property
    def process_error_ns(self) -> float:
        """Standard deviation of :attr:`score_ns` between processes; 0 where it was not timed by a GPU's events."""
        if self.offset_ns <= 0 or self.reported_ns is not None:
            return 0.0
        return self.score_ns * estimates.between_processes(
            [self.score_ns], [1.0], device_share=self.noise_share
        )

    @property
    def sampling_interval_ns(self) -> tuple[float, float] | None:
        """The 95 % interval of :attr:`score_ns` in this process, None if it is not known."""
        if self.reported_ns is not None:
            error = self.reported.get("err")
            return None if error is None else estimates.around(self.reported_ns, error)
        by_samples = estimates.moved(estimates.interval(self.samples_ns), self.raw_ns, self.score_ns)
        slopes = self.audit.slopes_ns if self.audit is not None else []
        slope_ns = self.audit.slope_ns if self.audit is not None else None
        if not slopes or slope_ns is None:
            return by_samples
        by_slopes = estimates.moved(estimates.interval(slopes), estimates.robust(slopes), self.score_ns)
        if math.isclose(self.score_ns, slope_ns):
            return by_slopes
        alone_ns = estimates.alone(slope_ns)
        error_ns = estimates.ALONE_ERROR_SHARE * self.score_ns
        if math.isclose(self.score_ns, alone_ns):
            return estimates.widened(by_slopes, self.score_ns, error_ns)
        if alone_ns < self.score_ns < self.claim_ns:
            # A part of the claim's excess over the lone call was subtracted.
            share = (self.claim_ns - self.score_ns) / (self.claim_ns - alone_ns)
            return estimates.widened(by_samples, self.score_ns, share * error_ns)
        return by_samples

    @property
    def error_ns(self) -> float | None:
        """Standard error of :attr:`score_ns`, None with fewer than two samples."""
        if len(self.samples_ns) < 2:
            return self.reported.get("err")
        return estimates.standard_error(self.samples_ns)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """The outcome of one case."""

    index: int
    """Position among the public cases of its stage, then the hidden ones."""
    parameters: Parameters
    hidden: bool = False
    verdict: Verdict
    reason: Reason = Reason.NONE
    """Why it was not accepted, finer than the verdict."""
    message: str = ""
    mismatch: Mismatch | None = None
    failed_on: SampleName | None = None
    """The input that decided the verdict, for a replay."""
    timing: Timing | None = None
    checks: int = 0
    """How many outputs were checked."""
    work: Work | None = None
    """The least work of the case, if its task declares it."""
    floor_ns: float | None = None
    """The shortest time in which the device can do that work."""
    reference_ns: float | None = None
    """Time of the task's own reference, if it was measured."""
    profile: str | None = None
    """Text of the profiler, in profile mode."""
    trace_gz64: str | None = None
    """The profiler's Chrome trace, gzip and base64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageReport:
    """One stage with its finished cases, even if it was cut off."""

    name: StageName
    verdict: Verdict
    reason: Reason = Reason.NONE
    """Why it was not accepted, finer than the verdict."""
    message: str = ""
    duration_s: float = 0.0
    limit_s: float = 0.0
    planned_cases: int = 0
    cases: list[CaseResult] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedOutput:
    """Standard output or error of the contestant: its beginning and total size."""

    text: str = ""
    total_bytes: int = 0
    truncated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Measurements of the trusted contestant in the same job, before and after."""

    offset_ns: float = 0.0
    """Event time of an empty kernel minus its time on the device, in the submission's process before the import; in the
    trusted contestant's process if that is not possible."""
    own_empty_ns: list[float] = field(default_factory=list)
    """Empty kernels in the submission's process."""
    empty_pair_ns: float = 0.0
    """Two events with nothing between them."""
    empty_kernel_ns: float = 0.0
    """Two events around an empty kernel."""
    spin_line: list[float] = field(default_factory=list)
    """Slope and intercept (ns) of event times over the times of kernels of known length."""
    spin_points: list[list[float]] = field(default_factory=list)
    """For each kernel its length, its event time and its median handshake, in nanoseconds."""
    ring_slopes_ns: list[float] = field(default_factory=list)
    """Steady-state time of a 20 us kernel by each pair of series; the slack of slopes is derived from it."""
    handshake_ns: float = 0.0
    """Median of the judge's wall-clock times of no-op calls."""
    handshake_residual_ns: float = 0.0
    """Root mean square of the residuals of median handshakes from their line."""
    handshake_p99_ns: float = 0.0
    """99th percentile of single handshakes minus their median."""
    canary_ns: float = 0.0
    """Time of a kernel that is the same in each job."""
    sm_clock_mhz: float | None = None
    """Clock of the multiprocessors at the end."""
    temperature_c: float | None = None
    """Temperature of the chip at the end."""
    device_name: str = ""
    """Empty for the processor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DuelResult:
    """Two submissions measured in turns on one device. Below 1 the first is faster."""

    ratios: list[float] = field(default_factory=list)
    """Submission over rival for each block, geometric mean over the cases."""
    cases: list[list[float]] = field(default_factory=list)
    """The same by case: one list for each case, with one ratio for each block."""
    pairs: list[int] = field(default_factory=list)
    """Number of blocks of each pair of processes, in their order."""
    ratio: float = 1.0
    """Geometric mean of the ratios without the extremes."""
    low: float = 0.0
    """Lower end of its 98 % interval."""
    high: float = 0.0
    """Upper end."""
    verdict: str = "tied"
    """``faster`` or ``slower`` if 1 is outside of the interval, else ``tied``; empty if the rival failed,
    ``not_held`` if there are no credible times and neither side can be blamed for it."""
    blocks: int = 0
    """Number of ratios."""
    rival_message: str = ""
    """Why the rival could not be measured, empty if it could."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunReport:
    """Everything that a run found out."""

    version: int = PROTOCOL_VERSION
    job_id: str
    mode: Mode
    backend: Backend
    harness: HarnessKind
    verdict: Verdict
    stage: StageName | None = None
    """The stage that decided the verdict; None when accepted."""
    reason: Reason = Reason.NONE
    """Why it was not accepted, finer than the verdict."""
    message: str = ""
    stages: list[StageReport] = field(default_factory=list)
    stdout: CapturedOutput = field(default_factory=CapturedOutput)
    stderr: CapturedOutput = field(default_factory=CapturedOutput)
    exit_code: int | None = None
    """Exit code of the contestant or the task's own harness; negative for a signal."""
    duration_s: float = 0.0
    trust: TrustLevel = TrustLevel.SELF_MEASURED
    """The worst level of its ranked cases."""
    quarantine: list[Finding] = field(default_factory=list)
    """Why the run is kept but does not count; empty if it counts."""
    calibration: Calibration | None = None
    """Measurements of the trusted contestant in the same job."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: ``start``, ``load``, ``test``, ``ranked/claims``, ..."""
    duel: DuelResult | None = None
    """The comparison with the job's ``rival``."""
    comparable: bool = True
    """False if there was no GPU and the processor answered in its place."""
    seed_commitment: str = ""
    """SHA-256 of the secret seed, made before the run."""
    secret_seed: str = ""
    """The seed itself, 64 hex digits: revealed when the run has ended."""
    seeds_below: int | None = None
    """The job's bound for the drawn seeds."""
    environment: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    """Result keys of an own harness that have no other place."""

    def stage_report(self, name: StageName) -> StageReport | None:
        """Return the report of a stage, or None if it was not reached."""
        return next((stage for stage in self.stages if stage.name is name), None)


def check_spec(spec: JobSpec) -> None:
    """Raise :class:`ProtocolError` for a well-formed job that cannot be run."""
    rules, limits = spec.rules, spec.limits
    seed = spec.secret_seed
    names = [*spec.sources, spec.submission_name]
    faults = {
        "secret_seed: expected 64 hex digits": seed is not None and not re.fullmatch("[0-9a-f]{64}", seed),
        "sources: a name that is not a plain relative path": not all(map(is_plain_name, names)),
        "sources: a name that is both a file and a folder": has_clash(names),
        "submission: text that cannot be written as UTF-8": not all(
            map(is_encodable, [spec.submission, *spec.sources.values()])
        ),
        f"seeds_below: at least {FEWEST_SEEDS}": spec.seeds_below is not None
        and spec.seeds_below < FEWEST_SEEDS,
        "rules: at least one check and one sample": min(rules.checks, rules.max_samples) < 1,
        "limits: must be positive": min(limits.import_s, limits.test_s, limits.benchmark_s, limits.ranked_s)
        <= 0,
        "main: the task's own harness must be among its sources": (
            spec.harness is HarnessKind.OWN and spec.main not in spec.sources
        ),
    }
    for fault, found in faults.items():
        if found:
            raise ProtocolError(f"JobSpec.{fault}")


def is_plain_name(name: str) -> bool:
    """Return whether a file name stays in the folder that it is relative to."""
    parts = name.split("/")
    return is_encodable(name) and "\0" not in name and not {"", ".", ".."} & set(parts)


def is_encodable(text: str) -> bool:
    """Return whether a text can be written as UTF-8: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_clash(names: list[str]) -> bool:
    """Return whether one name is also the folder of another."""
    files = set(names)
    return any(
        "/".join(parts[:end]) in files
        for parts in (n.split("/") for n in names)
        for end in range(1, len(parts))
    )


T = TypeVar("T")


def to_json(value: object) -> Any:
    """Turn a protocol dataclass into JSON-ready values. NaN and infinities become ``{"$float": "nan"}``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    return value


def without_markers(value: Any) -> Any:
    """Return JSON values with NaN and infinities as floats again."""
    if isinstance(value, dict):
        if set(value) == {"$float"}:
            return _decode_scalar(float, value, "$float")
        return {key: without_markers(item) for key, item in value.items()}
    return [without_markers(item) for item in value] if isinstance(value, list) else value


def dumps(value: object) -> str:
    """Serialise a protocol dataclass to one line of JSON."""
    return json.dumps(to_json(value), allow_nan=False, separators=(",", ":"))


def loads(kind: type[T], text: str | bytes) -> T:
    """Read one protocol dataclass from JSON text. Raise :class:`ProtocolError` if it is not one."""
    try:
        return from_json(kind, json.loads(text))
    except ProtocolError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{kind.__name__}: not JSON: {error}") from error


def from_json(kind: type[T], value: object, path: str = "") -> T:
    """Check ``value`` against a dataclass and build it. Raise :class:`ProtocolError`."""
    return typing.cast("T", _decode(kind, value, path or kind.__name__))


def _decode(kind: Any, value: Any, path: str) -> Any:
    if kind is Any:
        return without_markers(value)
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(kind, value, path)
    if origin is list:
        return _decode_list(typing.get_args(kind)[0], value, path)
    if origin is dict:
        return _decode_dict(typing.get_args(kind)[1], value, path)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, path)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _decode_enum(kind, value, path)
    return _decode_scalar(kind, value, path)


def _decode_union(kind: Any, value: Any, path: str) -> Any:
    options = typing.get_args(kind)
    if value is None and type(None) in options:
        return None
    (inner,) = (option for option in options if option is not type(None))
    return _decode(inner, value, path)


def _decode_list(item: Any, value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError(f"{path}: expected a list, got {type(value).__name__}")
    return [_decode(item, entry, f"{path}.{i}") for i, entry in enumerate(value)]


def _decode_dict(item: Any, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"{path}: expected an object, got {type(value).__name__}")
    return {key: _decode(item, entry, f"{path}.{key}") for key, entry in value.items()}


def _decode_dataclass(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise ProtocolError(f"{path}: expected an object, got {type(value).__name__}")
    hints = _hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    for key in value:
        if key not in known:
            raise ProtocolError(f"{path}.{key}: unknown key")
    for f in dataclasses.fields(kind):
        has_default = f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        if f.name not in value and not has_default:
            raise ProtocolError(f"{path}.{f.name}: missing")
    made = kind(**{key: _decode(hints[key], entry, f"{path}.{key}") for key, entry in value.items()})
    if "version" in known and made.version != PROTOCOL_VERSION:
        raise ProtocolError(f"{path}.version: expected {PROTOCOL_VERSION}, got {made.version}")
    return made


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields. Cached: resolving them takes longer than reading a report."""
    return typing.get_type_hints(kind)


def _decode_enum(kind: type[StrEnum], value: Any, path: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise ProtocolError(f"{path}: {value!r} is not one of {allowed}") from None


def _decode_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, dict) and value.get("$float") in ("inf", "-inf", "nan"):
        return float(value["$float"])
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ProtocolError(f"{path}: the number is too large for a float") from None
    if type(value) is not kind:
        raise ProtocolError(f"{path}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def canonical_hash(value: object) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of ``value``."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
