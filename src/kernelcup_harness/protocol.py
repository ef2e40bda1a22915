"""What crosses the border of the harness: one :class:`JobSpec` in, one :class:`RunReport` out.

Both are plain JSON. Decoding is strict: an unknown key, a missing key or a value of the wrong
type raises :class:`ProtocolError` with the dotted path of the offender.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import statistics
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

PROTOCOL_VERSION = 1

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
    """An output has another type, structure, dtype or shape than the reference's."""
    ALIASED = "aliased"
    """An output shares memory with an input or another output, and the task does not say it may."""
    REPEATED = "repeated"
    """Wrong on an input that had been right before."""
    NEAR_TWIN = "near_twin"
    """Wrong on an input that differs from an earlier one in one element."""
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


class TrustLevel(StrEnum):
    """How far a time is proven."""

    AUDITED = "audited"
    BOUNDED = "bounded"
    SELF_MEASURED = "self-measured"


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
    relative_error: float = 0.001
    """Stop once the standard error of the mean is below this share of the mean."""
    case_budget_s: float = 8.0
    """Stop a case after this much wall-clock time, once ``min_samples`` are in."""
    repeats: int = 1
    """Calls of a timed case, at random moments, with an input that was there before: checked, not timed."""
    twins: int = 1
    """As many with an input that differs from an earlier one in one element."""


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
    secret_seed: str | None = None
    """64 hex digits, to repeat a finished run; drawn by the runner when it is absent."""
    multi_gpu: bool = False
    sandbox: SandboxPolicy = SandboxPolicy.AUTO
    near_twins: bool = True
    """False where an input with one element changed would break what the task promises of its inputs."""
    aliasing: bool = False
    """Whether outputs may share memory with inputs or each other although the reference's do not."""
    build_scope: str = ""
    """Whose builds may be used again on a machine: an opaque name of the user; empty for nobody's."""
    replay: Replay | None = None
    """Judge only this one sample of a finished run."""


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
    largest_error: float | None
    """Largest absolute difference over the finite elements; None for values that are no numbers."""
    first: list[Difference]
    """The first five wrong positions in row-major order."""
    rule: str
    """What counted as wrong, such as ``|actual - expected| > 1e-05 + 1e-05 * |expected|``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Samples of one case in nanoseconds; every statistic is derived from them."""

    samples_ns: list[float]
    """One call each, as the contestant's device clock claims it."""
    wall_ns: list[float] = field(default_factory=list)
    """The judge's wall clock around the same calls, hand-over included."""
    reported_ns: float | None = None
    """The mean that a task's own harness reports; it then is the score."""
    reported: dict[str, float] = field(default_factory=dict)
    """Other figures of an own harness: std, err, best, worst, runs."""

    @property
    def score_ns(self) -> float:
        """The time that is ranked: mean without the slowest and fastest tenth, or as reported."""
        if self.reported_ns is not None:
            return self.reported_ns
        return statistics.fmean(self._ordered_and_cut()[0])

    @property
    def error_ns(self) -> float | None:
        """Standard error of :attr:`score_ns`, None with fewer than two samples.

        That of a trimmed mean: the deviation of the winsorized samples (Tukey and McLaughlin 1963).
        """
        if len(self.samples_ns) < 2:
            return self.reported.get("err")
        kept, cut = self._ordered_and_cut()
        winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
        count = len(winsorized)
        return statistics.stdev(winsorized) / ((1 - 2 * cut / count) * math.sqrt(count))

    def _ordered_and_cut(self) -> tuple[list[float], int]:
        """Return the samples in order without the extremes, and how many were cut at each end."""
        ordered = sorted(self.samples_ns)
        cut = len(ordered) // 10
        return ordered[cut : len(ordered) - cut], cut


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
    comparable: bool = True
    """False where no GPU was there and its answers were given by the processor."""
    seed_commitment: str = ""
    """SHA-256 of the secret seed, made before the run."""
    secret_seed: str = ""
    """The seed itself, 64 hex digits, revealed because the run has ended."""
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
    hints = typing.get_type_hints(kind)
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
