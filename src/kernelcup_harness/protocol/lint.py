"""The harness's interface for testing a task instead of a submission.

A :class:`~kernelcup_harness.protocol.JobSpec` goes in, as for judging; one :class:`LintReport` comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kernelcup_harness.protocol import Parameters


class Null(StrEnum):
    """An answer that needs none or only a part of the work. A good task accepts none."""

    ZEROS = "zeros"
    ONES = "ones"
    UNINITIALISED = "uninitialised"
    """Random bytes, as in an unwritten buffer."""
    COPY_OF_INPUT = "copy_of_input"
    PREVIOUS_ANSWER = "previous_answer"
    """The right answer for the previous input."""
    OTHER_SEED = "other_seed"
    """The right answer for the input of an unrelated seed."""
    ONE_PERCENT_WRONG = "one_percent_wrong"
    """The right answer except for one element in a hundred, at least one."""
    LAST_TILE_MISSING = "last_tile_missing"
    NAN = "nan"
    """NaN in all elements whose dtype has it."""
    INFINITE = "infinite"
    HALF_NAN = "half_nan"
    """The right answer, but NaN in its second half."""
    LOWER_PRECISION = "lower_precision"
    """Computed in the next lower precision: inputs and answer are rounded to it."""
    OTHER_FORM = "other_form"
    """The right answer shorter, longer, or in a narrower dtype."""
    HOSTILE_INTEGERS = "hostile_integers"
    """Negative or very large integers, as no index and no count is."""
    WITHIN_RANGE = "within_range"
    """Within the range of the right answer, but most elements far off, by amounts that wrap or cancel out."""
    NARROWER_DTYPE = "narrower_dtype"
    """In a narrower dtype as such; the same numbers in the right answer's dtype are refused."""


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"


class CaseList(StrEnum):
    """The list of a case in ``task.yml``."""

    TESTS = "tests"
    BENCHMARKS = "benchmarks"
    HIDDEN_TESTS = "hidden_tests"
    HIDDEN_BENCHMARKS = "hidden_benchmarks"


@dataclass(frozen=True, kw_only=True, slots=True)
class LintFinding:
    """A null that a case accepts."""

    list: CaseList
    index: int
    """Position in its list."""
    parameters: Parameters
    null: Null
    how: str
    """Description of the answer."""
    severity: Severity
    suggestion: str
    part: str = ""
    """The only part of the answer that was replaced, for example ``output[1]``; empty for all parts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LintReport:
    """All findings about a task."""

    fault: str = ""
    """Why the task could not be tested to the end; empty if it was."""
    too_little_memory: bool = False
    """Whether that was this machine's memory, which says nothing of the task."""
    fault_list: CaseList | None = None
    """The list of the case at which that happened; None if it was at no case."""
    fault_index: int = 0
    seeds_below: int | None = None
    """The largest bound below which seeds make no poorer inputs; None if no seed makes poorer inputs."""
    seeds_poor: bool = False
    """Whether even seeds below that bound, the smallest that is allowed, make poorer inputs."""
    seeds_open: bool = False
    """Whether the seeds are few, and inputs follow from them alone, so that all answers can be computed beforehand."""
    seeds_why: str = ""
    """What larger seeds do to the inputs."""
    findings: list[LintFinding] = field(default_factory=list)
    reference_s: list[float] = field(default_factory=list)
    """Seconds of a call of the reference with input and check, for each benchmark, then each hidden one; shorter if
    there was no time for all."""
    stage_s: float = 0.0
    """What a ranked stage takes at most if its calls take as long as these; 0 if none was measured."""
    calls_s: dict[str, float] = field(default_factory=dict)
    """What its calls take, by the task's functions."""
    tried: int = 0
    """Number of answers given to the checker."""
    notes: list[str] = field(default_factory=list)
    """Nulls that could not be tried, or were right, by case."""
