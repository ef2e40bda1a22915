"""What was found and measured of each case."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelcup_harness.protocol.base import Parameters
from kernelcup_harness.protocol.enums import Reason, TrustLevel, Verdict
from kernelcup_harness.protocol.spec import SampleName, Work

TRIM = 0.1
"""Share of the samples that is cut off at each end."""


def trimmed_mean(samples: Sequence[float]) -> float:
    """Return the mean without the slowest and fastest tenth; NaN without samples."""
    return statistics.fmean(ordered_and_cut(samples)[0]) if samples else math.nan


def ordered_and_cut(samples: Sequence[float]) -> tuple[list[float], int]:
    """Return the samples in order without the extremes, and how many were cut at each end."""
    ordered = sorted(samples)
    cut = int(len(ordered) * TRIM)
    return ordered[cut : len(ordered) - cut], cut


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


NOT_REPLAYED = "not_replayed"
"""Code of the finding that explains why calls on a GPU were made and not replayed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """An observation about a time, shown with it."""

    code: str
    """Stable: ``below_floor``, ``near_floor``, ``throttled``, ``busy_device``, ``not_replayed``, ``series_longer``,
    ``no_series``, ``witness_shorter``, ``not_witnessed``, ``unreadable``, ``unsteady``, ``places_differ``,
    ``wide_interval``, ``duel_spoilt``, ``own_share``, ``own_share_unknown``, ``binary_wrong``, ``excused_twin``,
    ``too_large``, ``rank_times_differ``, ``weak_checker``."""
    text: str
    """One plain sentence with the figures."""
    quarantines: bool = False
    """Whether the run is kept but not ranked until it has been reviewed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """The ranked time of a case, and what was found beside it."""

    captured: bool = False
    """Whether the calls were captured and replayed."""
    score_ns: float
    """The time that is ranked."""
    level: TrustLevel
    """By which clock."""
    findings: list[Finding] = field(default_factory=list)
    """Observations that are shown with the time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Samples of one case in nanoseconds; every statistic is derived from them."""

    samples_ns: list[float]
    """Raw times of single calls: the device's timer in another process if they were replayed, otherwise the judge's
    wall clock."""
    own_ns: list[float] = field(default_factory=list)
    """The submission's own, unverified times of the same calls, where it made them itself."""
    overhead_ns: float | None = None
    """Time of a call that computes nothing, with an input and an answer of the same size: part of each sample, never
    subtracted. None if it was not measured."""
    reported_ns: float | None = None
    """The mean that a task's own harness reports; it is the score then."""
    reported: dict[str, float] = field(default_factory=dict)
    """Other figures of the task's own harness: std, err, best, worst, runs."""
    offset_ns: float = 0.0
    """Time of an empty graph by the same clock; subtracted from the samples. 0 for the wall clock."""
    noise_share: float = 0.0
    """Standard deviation between runs on this device as a share, from its calibration; 0 if it is not known."""
    gun_ns: list[float] = field(default_factory=list)
    """If the samples are those of the witness: other calls by the start gun, an empty graph's time subtracted. They
    check the samples and rank nothing."""
    discarded_ns: list[float] = field(default_factory=list)
    """Samples that do not count because the device was throttled."""
    clocks_mhz: list[float] = field(default_factory=list)
    """Clock of the device at each sample, empty if it is not known."""
    audit: Audit | None = None
    """The ranked time; ranked cases only."""

    @property
    def raw_ns(self) -> float:
        """The samples' mean without the slowest and fastest tenth, offset included."""
        return trimmed_mean(self.samples_ns)

    @property
    def read_ns(self) -> float:
        """The contestant's own time, whether or not the samples are the judge's."""
        return trimmed_mean(self.own_ns) if self.own_ns else self.raw_ns

    @property
    def claim_ns(self) -> float:
        """The samples' mean without the offset; never negative."""
        return max(0.0, self.raw_ns - self.offset_ns)

    @property
    def score_ns(self) -> float:
        """The time that is ranked: as reported by the task's own harness, or by the judge."""
        if self.reported_ns is not None:
            return self.reported_ns
        return self.audit.score_ns if self.audit is not None else self.claim_ns

    @property
    def not_replayed(self) -> bool:
        """Whether calls on a GPU could not be replayed, and were timed by the wall clock."""
        return self.audit is not None and any(each.code == NOT_REPLAYED for each in self.audit.findings)


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
    judge: str | None = None
    """Beside a mismatch: the judge's own words of the message, without the checker's lines."""
    line: int | None = None
    """The line of the submission's file where a call has failed."""
    met_hidden: bool = False
    """Whether the submission had met hidden cases when this was found: its author sees the verdict, its reason, the
    line, and rounded times."""
    mismatch: Mismatch | None = None
    failed_on: SampleName | None = None
    """The input that decided the verdict, for a replay."""
    timing: Timing | None = None
    checks: int = 0
    """How many outputs were checked."""
    prepare_s: float | None = None
    """Seconds of the submission's `prepare` by the judge's clock, no part of any other time; None if it has none."""
    work: Work | None = None
    """The least work of the case, if its task declares it."""
    floor_ns: float | None = None
    """The shortest time in which the device can do that work."""
    reference_ns: float | None = None
    """Time of the task's own reference, if it was measured."""
    baseline_ns: list[float] = field(default_factory=list)
    """Times of the baseline, measured before the submission was imported; only of tasks that rank by speedup."""
    weight: float = 1.0
    """In the score."""
    profile: str | None = None
    """Text of the profiler, in profile mode."""
    trace_gz64: str | None = None
    """The profiler's Chrome trace, gzip and base64."""
