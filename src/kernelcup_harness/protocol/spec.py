"""A job: what is judged, how, and by which limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from kernelcup_harness.protocol.base import PROTOCOL_VERSION, Parameters, ProtocolError
from kernelcup_harness.protocol.enums import (
    Backend,
    CheckStyle,
    HarnessKind,
    Mode,
    RankingBy,
    SandboxPolicy,
    StageName,
)
from kernelcup_harness.protocol.files import SourceTree, has_clash, is_encodable, is_plain_name

FEWEST_SAMPLES = 16
"""A ranked case with fewer samples has no score: with few, a submission could choose which ones count."""
WALL_SHARE = 0.6
"""Largest budget as a share of a stage's time limit: a stage may take half as long again."""
FEWEST_SEEDS, FEW_SEEDS = 1 << 20, 1 << 32
"""Smallest ``seeds_below``, and from where on seeds are too many to be tried: below it random numbers are salted."""


class ProfileWay(StrEnum):
    """What is profiled."""

    TRACE = "trace"
    """The submission's process, by PyTorch's profiler: a timeline, and no counters."""
    REPLAYED = "replayed"
    """The timer, which replays the captured call: no host code of the submission runs under the profiler."""
    CALLED = "called"
    """The submission's process, where its call cannot be replayed: host code could change what is seen."""


class Sections(StrEnum):
    """Sets of sections of ``ncu``."""

    BASIC = "basic"
    DETAILED = "detailed"
    FULL = "full"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileOptions:
    """What is to be profiled."""

    benchmark: int | None = None
    """Index of the benchmark; None for the last one."""
    kernel: str = ""
    """A regular expression that a kernel's name has to contain; empty for all kernels."""
    launches: int = 0
    """Most launches to profile; 0 for all of the call."""
    sections: Sections = Sections.FULL
    way: ProfileWay = ProfileWay.TRACE
    """Set by the runner, which profiles in several ways."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFile:
    """A file of a profile or of a ranked run."""

    name: str
    nbytes: int
    sha256: str
    gz64: str = ""
    """Its content, gzip and base64; empty once it is in the file store."""

    def __post_init__(self) -> None:
        """Raise ``ProtocolError`` for a name that leads out of the folder in which it is kept."""
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ProtocolError(f"files: the name {self.name!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptBinary:
    """The binary of an accepted ranked run, to be replayed in the place of the submission's code."""

    run: int
    """The number of that run."""
    device: str = ""
    """The device and driver that it ran on, as ``profiles.device_of`` names them; elsewhere the code is judged."""
    files: list[KeptFile] = field(default_factory=list)
    """``binary.kcgraph`` and ``binary.memory``, with their content."""
    why: str = ""
    """Why it cannot be replayed, so that the code is judged; empty if it may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaBuild:
    """What a task asks of the compiler."""

    sources: list[str] = field(default_factory=list)
    """Files that are compiled together with the task's own one, never with a submission."""
    include_dirs: list[str] = field(default_factory=list)
    """Folders of the job's files."""
    defines: dict[str, str] = field(default_factory=dict)
    """Identifier to value; an empty value defines the identifier alone."""
    compile_flags: list[str] = field(default_factory=list)
    """Further flags; g++ gets those that it knows."""
    rtol: float | None = None
    """Tolerances of a C interface without a check of its own; None for those of the dtype."""
    atol: float | None = None
    """Likewise, absolute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Wall-clock limits in seconds, one for each stage, and caps in bytes."""

    import_s: float = 180.0
    test_s: float = 180.0
    benchmark_s: float = 180.0
    ranked_s: float = 180.0
    profile_s: float = 300.0
    """For each way of profiling."""
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
    min_samples: int = 16
    """A ranked case that does not get 16 samples in its budget has no score, unless this asks for fewer."""
    max_samples: int = 100
    relative_error: float = 0.005
    """Stop once half the width of the 95 % interval is below this share of the time, or 50 ns; 0: never."""
    case_budget_s: float = 8.0
    """Largest share of ``stage_budget_s`` for one case."""
    stage_budget_s: float = 6.0
    """Wall-clock time for all cases of a timed stage together, audits included; a case whose reference is slow gets
    more than its share."""
    most_stage_s: float = 60.0
    """Longest budget of a stage whose references the judge itself finds slow."""
    repeats: int = 1
    """Calls of a timed case that repeat an earlier input at random moments: checked, not timed."""
    twins: int = 2
    """Calls of a run whose input differs from an earlier one in one element of a tensor: checked, not timed. In each
    case at least one for each tensor that can be changed; 0 for none."""
    test_twins: bool = False
    """Whether each test case is also called with every near-twin of its first input."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """The least work of a case, as its task declares it."""

    bytes: float | None = None
    """Bytes that must be read."""
    written: float | None = None
    """Bytes that must be written; they may end in the cache, see :mod:`kernelcup_harness.doubt.floor`."""
    flops: float | None = None
    """Floating-point operations that must be done."""
    link_bytes: float | None = None
    """Bytes that each GPU rank must send to others."""
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
    canary_tolerance: float = 0.05
    """The share by which a canary may be slower than its rolling median."""
    noise_share: float = 0.0
    """Standard deviation of the canary between runs, as a share of its time; 0 if it is not known."""
    calibration_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleName:
    """Names one input of a run, which can be made again once the seed is revealed."""

    input: int
    """Index of the input in its case."""
    twin: bool = False
    """Whether it was changed in one element."""
    part: int = 0
    """Which of its twins that is: each changes another tensor, or of many tensors another eighth."""


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
    data: dict[str, str] = field(default_factory=dict)
    """File name to bytes in base64: what the task's own code may open, and the submission never sees."""
    submission: SourceTree
    reference_module: str = "reference"
    """The module among ``sources`` that has ``generate_input`` and ``check_implementation``, or a file in C++."""
    private_files: list[str] = field(default_factory=list)
    """Names in ``sources`` that are withheld from the contestant (reference, checker, own harness)."""
    shown_files: dict[str, str] = field(default_factory=dict)
    """What the contestant gets in place of some of the private files: their classes, of which values may be."""
    main: str | None = None
    """The file of the task's own harness, if it has one."""
    cuda: CudaBuild = field(default_factory=CudaBuild)
    """What the task asks of compilers of C++ and CUDA C++."""
    check_style: CheckStyle = CheckStyle.DATA_OUTPUT
    tests: list[Parameters] = field(default_factory=list)
    benchmarks: list[Parameters] = field(default_factory=list)
    hidden_tests: list[Parameters] = field(default_factory=list)
    hidden_benchmarks: list[Parameters] = field(default_factory=list)
    ranking_by: RankingBy = RankingBy.LAST
    baseline: str = ""
    """The module among ``sources`` that speedups are relative to; empty for the reference."""
    weights: list[float] = field(default_factory=list)
    """Of ``benchmarks``, then of ``hidden_benchmarks``, in the score; empty for equal ones."""
    partial: bool = False
    """Whether a timed case that fails costs its part of the score only."""
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
    """False if changing one element of a tensor would break what the task promises about its inputs."""
    aliasing: bool = False
    """Whether outputs may use the memory of inputs even if the reference's do not."""
    non_finite: bool = False
    """Whether an element may be NaN or infinite where the reference's is finite."""
    wide_answers: bool = False
    """Whether an element may lie far outside of the range of the reference's output."""
    any_answer: bool = False
    """Whether the checker is right to accept answers that have little to do with the reference's."""
    dtypes: list[str] | None = None
    """Names of dtypes that tensors of an output may have beside the reference's; None for the usual ones."""
    prepare_s: float | None = None
    """The longest that the submission's `prepare` may take for a case; None if it is not called."""
    own_share: float | None = None
    """The least share of the time of a call's kernels that code in no library of the machine may have, in each case of
    the ranked stage: above 0, at most 1; None for no rule."""
    environment: str = ""
    """The machine's environment that submissions are built and run in; empty for what pip brings."""
    libraries: list[str] = field(default_factory=list)
    """Libraries that CUDA C++ is compiled and linked with, by the names of ``task.yml``."""
    build_scope: str = ""
    """An opaque name of the user, whose builds may be reused on a machine; empty to reuse none."""
    replay: Replay | None = None
    """Judge only this one sample of a finished run."""
    work: list[Work] = field(default_factory=list)
    """The least work of each of ``benchmarks``, in their order; empty if the task declares none."""
    hidden_work: list[Work] = field(default_factory=list)
    """The same for ``hidden_benchmarks``."""
    reference_s: list[float] = field(default_factory=list)
    """Seconds for one input, the reference's answer and its check, for each of ``benchmarks``, then of
    ``hidden_benchmarks``; empty if it was not measured, and then the judge measures it before the import."""
    device: DeviceFacts | None = None
    """The capabilities of the device, from the calibration in force."""
    profile: ProfileOptions = field(default_factory=ProfileOptions)
    """What to profile (``profile`` only)."""
    rival: SourceTree | None = None
    """A second submission that is measured in turns with the first (``leaderboard`` only)."""
    rival_error: float = 0.02
    """How often a duel of equally fast submissions may find a difference: above 0, below 1."""
    binary: KeptBinary | None = None
    """What is replayed in the place of the submission's code (``leaderboard`` only)."""
    rival_binary: KeptBinary | None = None
    """The same for the rival."""


def check_spec(spec: JobSpec) -> None:
    """Raise :class:`ProtocolError` for a well-formed job that cannot be run."""
    rules, limits, seed = spec.rules, spec.limits, spec.secret_seed
    names = [*spec.sources, *spec.data]
    trees = [tree for tree in (spec.submission, spec.rival) if tree is not None]
    faults = {
        "secret_seed: expected 64 hex digits": seed is not None and not re.fullmatch("[0-9a-f]{64}", seed),
        "sources: a name that is not a plain relative path": not all(map(is_plain_name, names)),
        "sources: a name that is both a file and a folder": has_clash(names),
        "data: a name of another file": not spec.data.keys().isdisjoint(spec.sources),
        "sources: text that cannot be written as UTF-8": not all(map(is_encodable, spec.sources.values())),
        f"seeds_below: at least {FEWEST_SEEDS}": spec.seeds_below is not None
        and spec.seeds_below < FEWEST_SEEDS,
        "rules: at least one check and one sample": min(rules.checks, rules.max_samples) < 1,
        "profile: no benchmark with this index": spec.profile.benchmark is not None
        and not 0 <= spec.profile.benchmark < max(1, len(spec.benchmarks)),
        "profile: the kernel's pattern is no regular expression": not is_pattern(spec.profile.kernel),
        "own_share: expected more than 0 and at most 1": spec.own_share is not None
        and not 0 < spec.own_share <= 1,
        "prepare_s: expected more than 0": spec.prepare_s is not None and not spec.prepare_s > 0,
        "binary: replayed in jobs of mode leaderboard only": spec.mode is not Mode.LEADERBOARD
        and (spec.binary or spec.rival_binary) is not None,
        "rival_binary: without a rival": spec.rival_binary is not None and spec.rival is None,
        "rival_error: expected more than 0 and less than 1": not 0 < spec.rival_error < 1,
        "limits: must be positive": min(limits.import_s, limits.test_s, limits.benchmark_s, limits.ranked_s)
        <= 0,
        "main: the task's own harness must be among its sources": (
            spec.harness is HarnessKind.OWN and spec.main not in spec.sources
        ),
    }
    for fault, found in faults.items():
        if found:
            raise ProtocolError(f"JobSpec.{fault}")
    for tree in trees:
        if problem := tree.problem(spec.sources):
            raise ProtocolError(f"JobSpec.submission: {problem}")


def is_pattern(text: str) -> bool:
    """Return whether a text is a regular expression of at most 200 characters."""
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return len(text) <= 200 and "\0" not in text
