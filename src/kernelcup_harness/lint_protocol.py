"""What crosses the border of the harness when a task, not a submission, is put to the test.

A :class:`~kernelcup_harness.protocol.JobSpec` goes in, as for judging; one :class:`LintReport` comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kernelcup_harness.protocol import Parameters


class Null(StrEnum):
    """An answer that needs no work, or not all of it. A good task accepts none."""

    ZEROS = "zeros"
    ONES = "ones"
    UNINITIALISED = "uninitialised"
    """Random bytes, as a buffer has that nobody wrote to."""
    COPY_OF_INPUT = "copy_of_input"
    PREVIOUS_ANSWER = "previous_answer"
    """The right answer for the input before."""
    OTHER_SEED = "other_seed"
    """The right answer for an input of a seed that has nothing to do with this one."""
    ONE_PERCENT_WRONG = "one_percent_wrong"
    """The right answer but for one element in a hundred, and for one at least."""
    LAST_TILE_MISSING = "last_tile_missing"
    NAN = "nan"
    """NaN in all elements that have one."""
    INFINITE = "infinite"
    HALF_NAN = "half_nan"
    """The right answer, but NaN in its second half."""
    LOWER_PRECISION = "lower_precision"
    """Computed in the next lower precision: inputs and answer are rounded to it."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


class CaseList(StrEnum):
    """Where a case stands in ``task.yml``."""

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
    """What was handed in."""
    severity: Severity
    suggestion: str
    part: str = ""
    """The only part of the answer that was replaced, such as ``output[1]``; empty for all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LintReport:
    """All that the nulls found out about a task."""

    fault: str = ""
    """Why the task could not be tried to the end; empty if it was."""
    fault_list: CaseList | None = None
    """Where the case stands at which that was; None if it was at none."""
    fault_index: int = 0
    seeds_below: int | None = None
    """The largest bound below which seeds make no poorer inputs; None where no seed does."""
    seeds_poor: bool = False
    """Whether even seeds below that bound, the smallest that is allowed, make poorer inputs."""
    seeds_why: str = ""
    """What larger seeds do to the inputs."""
    findings: list[LintFinding] = field(default_factory=list)
    tried: int = 0
    """How many answers the checker was asked about."""
    notes: list[str] = field(default_factory=list)
    """What could not be tried, or was right, case by case."""
