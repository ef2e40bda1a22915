"""What crosses the border of the harness: one :class:`JobSpec` in, one :class:`RunReport` out.

Both are plain JSON. Decoding is strict: an unknown key, a missing key or a value of the wrong
type raises :class:`ProtocolError` with the dotted path of the offender.
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
"""No bound leaves fewer ranked seeds than this: they could be tried one by one."""

# What a case value may be; lists hold the same kinds.
CaseValue = int | float | bool | str | list["CaseValue"]
Parameters = dict[str, Any]


class ProtocolError(ValueError):
    """A message does not have the agreed form. The text starts with the dotted path."""


class Mode(StrEnum):
    """What is asked of a job. People are shown ``leaderboard`` as "ranked"."""

    TEST = "test"
    BENCHMARK = "benchmark"
    PROFILE = "profile"
    LEADERBOARD = "leaderboard"


class Backend(StrEnum):
    """How the harness answers ``device="cuda"``."""

    CUDA = "cuda"
    """A real GPU."""
    CPU = "cpu"
    """No GPU and none pretended: for tasks that are about the processor."""
    EMULATED = "emulated"
    """No GPU; requests for one are answered on the processor, times are not comparable."""


class HarnessKind(StrEnum):
    """Whose code judges."""

    STANDARD = "standard"
    """Ours: judge and contestant are two processes."""
    OWN = "own"
    """The task's own ``eval.py``, under the ``POPCORN_*`` contract."""


class CheckStyle(StrEnum):
    """How the task's ``check_implementation`` is called."""

    DATA_OUTPUT = "data_output"
    """``check_implementation(data, output)``, as in task folders."""
    OUTPUT_REFERENCE = "output_reference"
    """``check_implementation(user_output, reference_output)``, as in single-file tasks."""


class Verdict(StrEnum):
    """What is said of a submission."""

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
    """An output has another type, structure or shape than the reference's, or another dtype where that counts."""
    ALIASED = "aliased"
    """An output shares memory with an input or another output, and the task does not say it may."""
    REPEATED = "repeated"
    """Wrong on an input that had been right before."""
    NEAR_TWIN = "near_twin"
    """Wrong on an input that differs from an earlier one in one element of each tensor."""
    UNFINISHED = "unfinished"
    """An answer was not complete when the stream had done all that the call had queued there."""
    EXCEPTION = "exception"
    IMPORT = "import"
    COMPILE = "compile"
    TOO_LARGE = "too_large"
    """A call returned more bytes of tensors than it may."""
    PROTOCOL = "protocol"
    """Something on the harness's channel that is no answer to what was asked."""
    CHANNEL_CLOSED = "channel_closed"
    GUARD_BAND = "guard_band"
    """Something was written beside an output."""
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
    """What the task's own harness said."""
    TASK = "task"
    """The task's own generator, reference or checker failed."""
    MACHINE = "machine"
    """The machine, or we."""


class SandboxPolicy(StrEnum):
    """Whether foreign code may run without a sandbox."""

    AUTO = "auto"
    """In one where the machine can make one; the report says which."""
    REQUIRED = "required"
    """Not without one."""
    NONE = "none"
    """Without one: for finding out whether the sandbox is in the way."""


class NotCaptured(StrEnum):
    """Why calls could not be taken from a CUDA graph, as the contestant says; within a run only."""

    WAITS = "waits"
    ELSEWHERE = "elsewhere"
    HOST_FUNCTION = "host_function"
    RUNTIME = "runtime"
    STALE = "stale"
    UNKNOWN = "unknown"


class TrustLevel(StrEnum):
    """How far a time is proven."""

    REPLAYED = "replayed"
    """Taken where no code of the submission runs, of what it had captured."""
    WALL_CLOCK = "wall clock"
    """The judge's own clock, from before an input is handed out until the whole answer is there: an upper bound."""
    AUDITED = "audited"
    """The clocks of the submission and of the judge agree."""
    BOUNDED = "bounded"
    """The judge's clock bounds it: what is ranked is not less than what calls one after another took."""
    SELF_MEASURED = "self-measured"
    """The submission's clock says so."""


BEST_LEVELS = (TrustLevel.REPLAYED, TrustLevel.AUDITED)
"""What a leaderboard takes that asks for audited times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Wall-clock limits in seconds, one a stage, and caps in bytes."""

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
    """Stop a case after this much wall-clock time; where warm-ups and checks took it, with two samples."""
    stage_budget_s: float = 6.0
    """What all cases of a timed stage may take together, calibration and audits included."""
    repeats: int = 1
    """Calls of a timed case, at random moments, with an input that was there before: checked, not timed."""
    twins: int = 2
    """Such calls of a run, and of each case at least one, with an input that differs from an earlier one in one
    element of each tensor."""
    clean_room: bool = False
    """Have calls captured, and timed where no code of the submission runs: on a GPU, where times are taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What a case has to do at least, as its task declares it."""

    bytes: float | None = None
    """Bytes that must be read."""
    written: float | None = None
    """Bytes that must be written; they may end in the cache, see :mod:`kernelcup_harness.physics`."""
    flops: float | None = None
    """Floating-point operations that must be done."""
    precision: str = ""
    """In which of ``physics.Precision``, such as ``fp16``; empty for the fastest that was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFacts:
    """What a device can do, from the calibration of its machine."""

    copy_bytes_per_s: float
    """Largest rate at which its memory was seen to move bytes, reads and writes together; 0 for no bound."""
    matrix_flops_per_s: dict[str, float] = field(default_factory=dict)
    """Largest rate of matrix products by precision."""
    l2_bytes: float = 0.0
    """Size of the last cache before the memory, 0 if it is not known."""
    launch_ns: float = 0.0
    empty_kernel_ns: float = 0.0
    """What the profiler sees of a kernel that does nothing, 0 if it is not known."""
    canary_ns: float = 0.0
    """Rolling median of the canary kernel, 0 where there is none yet."""
    canary_tolerance: float = 0.02
    """By what share a canary may differ from its rolling median."""
    noise_share: float = 0.0
    """Standard deviation of the canary between runs, as a share of its time; 0 if it is not known."""
    calibration_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleName:
    """One input of a run, to be made again once the seed is revealed."""

    input: int
    """Which input of its case: 0 for the first."""
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
    """All that a machine needs to judge one submission once."""

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
    """Names in ``sources`` that the contestant never sees (reference, checker, own harness)."""
    main: str | None = None
    """The task's own harness, when it ships one."""
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
    """False where an input with one element of each tensor changed would break what the task promises of its inputs."""
    aliasing: bool = False
    """Whether outputs may share memory with inputs or each other although the reference's do not."""
    non_finite: bool = False
    """Whether an element may be NaN or infinite where the reference's is finite."""
    same_dtype: bool = False
    """Whether outputs of another dtype than the reference's are wrong whatever the checker says."""
    build_scope: str = ""
    """Whose builds may be used again on a machine: an opaque name of the user; empty for nobody's."""
    replay: Replay | None = None
    """Judge only this one sample of a finished run."""
    work: list[Work] = field(default_factory=list)
    """What each of ``benchmarks`` has to do, in their order; empty where the task declares nothing."""
    hidden_work: list[Work] = field(default_factory=list)
    """The same for ``hidden_benchmarks``."""
    device: DeviceFacts | None = None
    """What the device can do, from the calibration in force."""
    rival: str | None = None
    """Source of a second submission that is measured in turns with the first (``leaderboard`` only)."""
    rival_name: str = "submission.py"
    """Its file name."""
    require_audited: bool = False
    """Whether a run whose time is not audited counts at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One element of an output that is not as expected."""

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
    """How many of them are infinite."""
    largest_error: float | None
    """Largest absolute difference over the finite elements; None where no wrong element is a finite number."""
    first: list[Difference]
    """The first five wrong positions in row-major order."""
    rule: str
    """What counted as wrong, such as ``|actual - expected| > 1e-05 + 1e-05 * |expected|``."""
    shape: list[int] = field(default_factory=list)
    """Shape of the tensor; empty for a value that is none."""
    tiles: list[list[int]] = field(default_factory=list)
    """How many elements are wrong in each part of the tensor, at most 24 rows of 48. Its last dimension goes from left
    to right and all others from top to bottom; a tensor of one dimension is cut into parts that are read row by row."""

    @property
    def kinds(self) -> str:
        """Count the wrong elements that are no finite numbers: ``, 3 NaN``; empty where there is none."""
        counts = {"NaN": self.nan, "infinite": self.infinite}
        return "".join(f", {count} {name}" for name, count in counts.items() if count)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something about a time that people should know."""

    code: str
    """Stable: ``slope_disagrees``, ``handshake_disagrees``, ``not_armed``, ``handshake_disturbed``, ``below_floor``,
    ``near_floor``, ``empty_floor``, ``throttled``, ``busy_device``, ``not_audited``, ``not_captured``, ``no_time``,
    ``wide_interval``, ``not_replayed``, ``series_longer``."""
    text: str
    """One plain sentence with the figures."""
    quarantines: bool = False
    """Whether the run is kept but not ranked until somebody has looked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """What the judge's own clock says of a case. Handshakes are without what a no-op takes; no case that goes by the
    wall clock has any."""

    captured: bool = False
    """Whether the calls could be taken from a CUDA graph."""
    armed: bool = False
    """Whether handshakes were answered by the device alone: such ones are fine enough to hold a run back."""
    handshake_ns: float = 0.0
    """What a quarter of calls stays below whose input could not be known before."""
    handshake_slack_ns: float = 0.0
    """By how much it may exceed the claim: in 1 % of honest cases it does by chance."""
    slope_ns: float | None = None
    """Time of a call among many, None where it was not measured."""
    slope_slack_ns: float = 0.0
    """By how much it may exceed the claim of a captured case."""
    slope_calls: list[int] = field(default_factory=list)
    """Numbers of calls that were timed together: few and many."""
    slope_walls_ns: list[list[float]] = field(default_factory=list)
    """Wall-clock time of each such series, a list for each of ``slope_calls``."""
    noop_ns: float = 0.0
    """What a call takes that does nothing, in turns with the submission's."""
    noop_before_ns: float | None = None
    """The same before the submission was imported: no more is taken off than that and what a machine drifts."""
    score_ns: float
    """The time that is ranked."""
    level: TrustLevel
    """How far the score is proven."""
    findings: list[Finding] = field(default_factory=list)
    """What people should know about it."""

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
    """One call each: by the judge's wall clock where there is no GPU, else as the contestant's device clock claims
    it: raw."""
    own_ns: list[float] = field(default_factory=list)
    """The submission's own figure for the same calls, where the samples are the judge's: nobody vouches for it."""
    overhead_ns: float | None = None
    """What a sample of a call takes that computes nothing, on an input and with an answer of the same size: a part of
    each sample, and never taken off. None where it was not measured."""
    wall_ns: list[float] = field(default_factory=list)
    """The judge's wall clock around the same calls, hand-over included."""
    reported_ns: float | None = None
    """The mean that a task's own harness reports; it then is the score."""
    reported: dict[str, float] = field(default_factory=dict)
    """Other figures of an own harness: std, err, best, worst, runs."""
    offset_ns: float = 0.0
    """What an empty kernel reads by the same clock; taken off the samples."""
    noise_share: float = 0.0
    """Standard deviation between runs on this device, by its calibration, as a share; 0 if it is not known."""
    discarded_ns: list[float] = field(default_factory=list)
    """Samples that do not count because the device was throttled."""
    late_ns: list[float] = field(default_factory=list)
    """Samples that do not count because the device had to wait for the host."""
    clocks_mhz: list[float] = field(default_factory=list)
    """Clock of the device at each sample, empty where it is not known."""
    handshakes_ns: list[float] = field(default_factory=list)
    """The judge's wall clock around calls that nothing but the call was asked of: raw."""
    audit: Audit | None = None
    """What the judge's own clock says; ranked cases only."""

    @property
    def raw_ns(self) -> float:
        """The samples' mean without the slowest and fastest tenth, offset included."""
        return estimates.robust(self.samples_ns)

    @property
    def read_ns(self) -> float:
        """What the contestant's own clock read, whoever's the samples are."""
        return estimates.robust(self.own_ns) if self.own_ns else self.raw_ns

    @property
    def claim_ns(self) -> float:
        """What the contestant's clock claims, without the offset; never less than nothing."""
        return max(0.0, self.raw_ns - self.offset_ns)

    @property
    def score_ns(self) -> float:
        """The time that is ranked: as reported, as audited, or as claimed."""
        if self.reported_ns is not None:
            return self.reported_ns
        return self.audit.score_ns if self.audit is not None else self.claim_ns

    @property
    def interval_ns(self) -> tuple[float, float] | None:
        """The 95 % interval of :attr:`score_ns`, None where nothing is known about it.

        On a GPU it holds what the same kernel takes in other processes, too: a run has but one.
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
        """The 95 % interval of :attr:`score_ns` in this process, None where nothing is known about it."""
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
            # A part of what the claim has beyond that was taken off.
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
    """What came of one case."""

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
    """The input on which the verdict fell, for a replay."""
    timing: Timing | None = None
    checks: int = 0
    """How many outputs were checked."""
    work: Work | None = None
    """What the case has to do at least, where its task says so."""
    floor_ns: float | None = None
    """The time in which the device can do that at best."""
    reference_ns: float | None = None
    """What the task's own reference takes, where it was measured."""
    profile: str | None = None
    """Text of the profiler, in profile mode."""
    trace_gz64: str | None = None
    """The profiler's Chrome trace, gzip and base64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageReport:
    """One stage; its cases are those that were finished, also when it was cut off."""

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
    """Standard output or error of the contestant: the beginning, and how much there was."""

    text: str = ""
    total_bytes: int = 0
    truncated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a contestant of ours measured in the same job, before and after."""

    offset_ns: float = 0.0
    """What an empty kernel reads by events in the submission's process before that was imported, less the time that
    the device spends on it; in the trusted contestant's where that cannot be."""
    own_empty_ns: list[float] = field(default_factory=list)
    """Empty kernels in the submission's process."""
    empty_pair_ns: float = 0.0
    """Two events with nothing between them."""
    empty_kernel_ns: float = 0.0
    """Two events around an empty kernel."""
    spin_line: list[float] = field(default_factory=list)
    """Slope and intercept (ns) of what events read over what kernels of known length took."""
    spin_points: list[list[float]] = field(default_factory=list)
    """Length of a kernel, what events read, and the median handshake, in nanoseconds."""
    ring_slopes_ns: list[float] = field(default_factory=list)
    """The one of 20 us among many calls, by each pair of series; the slack of slopes follows from it."""
    handshake_ns: float = 0.0
    """Median of the judge's wall clock around a call that does nothing."""
    handshake_residual_ns: float = 0.0
    """Root mean square by which medians of handshakes miss their line."""
    handshake_p99_ns: float = 0.0
    """How much longer than their median 1 % of single handshakes took."""
    canary_ns: float = 0.0
    """A kernel that is the same in each job."""
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
    """The same for each case: a list for each, with a ratio for each block."""
    pairs: list[int] = field(default_factory=list)
    """How many of the blocks each pair of processes has, in their order."""
    ratio: float = 1.0
    """Geometric mean of the ratios without the extremes."""
    low: float = 0.0
    """Lower end of its 98 % interval."""
    high: float = 0.0
    """Upper end."""
    verdict: str = "tied"
    """``faster`` or ``slower`` where 1 is outside of the interval, else ``tied``; empty where the rival failed,
    ``not_held`` where nobody can say whose fault it is that there are no times to be believed."""
    blocks: int = 0
    """How many ratios there are."""
    rival_message: str = ""
    """Why the rival could not be measured, empty if it could."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunReport:
    """All that a run found out."""

    version: int = PROTOCOL_VERSION
    job_id: str
    mode: Mode
    backend: Backend
    harness: HarnessKind
    verdict: Verdict
    stage: StageName | None = None
    """Where the verdict fell; None when accepted."""
    reason: Reason = Reason.NONE
    """Why it was not accepted, finer than the verdict."""
    message: str = ""
    stages: list[StageReport] = field(default_factory=list)
    stdout: CapturedOutput = field(default_factory=CapturedOutput)
    stderr: CapturedOutput = field(default_factory=CapturedOutput)
    exit_code: int | None = None
    """Of the contestant or the task's own harness; negative for a signal."""
    duration_s: float = 0.0
    trust: TrustLevel = TrustLevel.SELF_MEASURED
    """The worst level of its ranked cases."""
    quarantine: list[Finding] = field(default_factory=list)
    """Why the run is kept but does not count; empty if it does."""
    calibration: Calibration | None = None
    """What our own contestant measured in the same job."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: ``start``, ``load``, ``test``, ``ranked/claims``, ..."""
    duel: DuelResult | None = None
    """How it compares with the job's ``rival``."""
    comparable: bool = True
    """False where no GPU was there and its answers were given by the processor."""
    seed_commitment: str = ""
    """SHA-256 of the secret seed, made before the run."""
    secret_seed: str = ""
    """The seed itself, 64 hex digits, revealed because the run has ended."""
    seeds_below: int | None = None
    """The job's bound of the seeds that were drawn."""
    environment: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    """Result keys of an own harness that have no other place."""

    def stage_report(self, name: StageName) -> StageReport | None:
        """Return the report of a stage, or None when it was not reached."""
        return next((stage for stage in self.stages if stage.name is name), None)


def check_spec(spec: JobSpec) -> None:
    """Raise :class:`ProtocolError` for a job that has the right form but cannot be run."""
    rules, limits = spec.rules, spec.limits
    seed = spec.secret_seed
    names = [*spec.sources, spec.submission_name]
    faults = {
        "secret_seed: expected 64 hex digits": seed is not None and not re.fullmatch("[0-9a-f]{64}", seed),
        "sources: a name that is no plain relative path": not all(map(is_plain_name, names)),
        "sources: a name that is a file and a folder": has_clash(names),
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
    """Tell whether a file name stays in the folder that it is relative to."""
    parts = name.split("/")
    return is_encodable(name) and "\0" not in name and not {"", ".", ".."} & set(parts)


def is_encodable(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_clash(names: list[str]) -> bool:
    """Tell whether one name is a folder of another."""
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
    """Return the types of a dataclass's fields: working them out takes longer than reading a report."""
    return typing.get_type_hints(kind)


def _decode_enum(kind: type[StrEnum], value: Any, path: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise ProtocolError(f"{path}: {value!r} is none of {allowed}") from None


def _decode_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, dict) and value.get("$float") in ("inf", "-inf", "nan"):
        return float(value["$float"])
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ProtocolError(f"{path}: a number beyond all floats") from None
    if type(value) is not kind:
        raise ProtocolError(f"{path}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def canonical_hash(value: object) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of ``value``."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
