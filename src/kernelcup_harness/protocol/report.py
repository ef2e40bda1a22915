"""The report of a job: its verdict, and what was found of each stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernelcup_harness.protocol.base import PROTOCOL_VERSION
from kernelcup_harness.protocol.codec import OrInfinite
from kernelcup_harness.protocol.enums import (
    Backend,
    DuelVerdict,
    HarnessKind,
    Mode,
    Reason,
    StageName,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.protocol.profiles import Counters, RanKernel
from kernelcup_harness.protocol.results import CaseResult, Finding
from kernelcup_harness.protocol.spec import KeptFile


@dataclass(frozen=True, kw_only=True, slots=True)
class StageReport:
    """One stage with its finished cases, even if it was cut off."""

    name: StageName
    verdict: Verdict
    reason: Reason = Reason.NONE
    """Why it was not accepted, finer than the verdict."""
    message: str = ""
    met_hidden: bool = False
    """Whether the submission had met hidden cases when the stage ended: its author does not see the message."""
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
    """The state of the device in this job."""

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
    """Lower end of its interval, which misses the true ratio as often as the job's ``rival_error`` says."""
    high: OrInfinite = 0.0
    """Upper end; infinite where too few pairs say nothing."""
    verdict: DuelVerdict = DuelVerdict.TIED
    """``faster`` or ``slower`` if 1 is outside of the interval, else ``tied``; empty if the rival failed, ``failed`` if
    the submission failed in turns, ``not_held`` if there are no credible times and neither side can be blamed."""
    blocks: int = 0
    """Number of ratios."""
    rival_message: str = ""
    """Why the two could not be measured, empty if they could."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BinaryUse:
    """What became of the binary of a run that a job was given."""

    side: str
    """``submission`` or ``rival``."""
    run: int
    """The number of the run that it was kept of."""
    why: str = ""
    """Why the code was judged instead; empty if the binary was replayed."""


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
    """The state of the device in this job."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: ``start``, ``import``, ``set-up``, ``test``, ``replay/samples``, ..."""
    duel: DuelResult | None = None
    """The comparison with the job's ``rival``."""
    counters: Counters | None = None
    """What the GPU's counters say of one call, in profile mode."""
    ran: list[RanKernel] = field(default_factory=list)
    """The kernels of one timed call, where calls were replayed."""
    files: list[KeptFile] = field(default_factory=list)
    """What is kept of an accepted ranked run: the binary that was timed (``binary.kcgraph``) with the memory that it
    reads (``binary.memory``), and the machine code of its own kernels in words (``sass.txt``)."""
    not_kept: str = ""
    """Why later duels and finals judge the code of an accepted ranked run again, empty if its binary is kept."""
    binaries: list[BinaryUse] = field(default_factory=list)
    """The kept binaries of earlier runs that the job was given, and what became of each."""
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
