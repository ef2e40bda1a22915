"""Tasks: problems, independent of the form they were written in."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from kernelcup_harness.protocol import (
    CudaBuild,
    HarnessKind,
    Parameters,
    RankingBy,
    Work,
    canonical_hash,
    from_json,
    to_json,
)

LEAVES_SCORES = frozenset(
    {
        *(
            "name",
            "description",
            "figures",
            "templates",
            "accepts",
            "limits",
            "devices",
            "harness",
            "waive_nulls",
            "work",
        ),
        *("hidden_work", "reference_s", "any_answer"),
    }
)
"""Keys of tasks that may change while results stay comparable; any other key may not."""
LATER = frozenset({"wide_answers", "any_answer"})
"""Keys that stored hashes do not know: a task that does not say them has the hash that it always had."""


class Language(StrEnum):
    """The language of a task's submissions."""

    PYTHON = "py"
    CUDA = "cu"

    @property
    def label(self) -> str:
        """As people write it."""
        return {"py": "Python", "cu": "CUDA C++"}[self.value]

    @property
    def endings(self) -> tuple[str, ...]:
        """How its files end."""
        return (".py",) if self is Language.PYTHON else (".cu", ".cuh", ".cpp")

    @classmethod
    def of_file(cls, name: str) -> Language | None:
        """Return the language of a file by its name, None if it is of none."""
        return next((each for each in cls if name.lower().endswith(each.endings)), None)


class TaskForm(StrEnum):
    """How a task was written down."""

    FOLDER = "folder"
    SINGLE_FILE = "single_file"


@dataclass(frozen=True, kw_only=True, slots=True)
class StageLimits:
    """Wall-clock limits of a task's stages, in seconds."""

    test_s: int = 180
    benchmark_s: int = 180
    ranked_s: int = 180


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A problem, independent of the form it was written in. Equal content has an equal ``content_hash``."""

    name: str
    """The folder, zip or file name without suffix: the proposed leaderboard name."""
    description: str = ""
    lang: Language = Language.PYTHON
    accepts: list[Language] = field(default_factory=list)
    """Languages of submissions; empty for the usual ones, see :meth:`accepted`."""
    form: TaskForm = TaskForm.FOLDER
    sources: dict[str, str]
    """Texts by file name, without the submission."""
    figures: dict[str, str] = field(default_factory=dict)
    """The statement's figures by file name, in base64."""
    data: dict[str, str] = field(default_factory=dict)
    """Bytes in base64 by file name: what the task's own code may open."""
    submission_name: str = "submission.py"
    main: str | None = None
    cuda: CudaBuild | None = None
    templates: dict[str, str] = field(default_factory=dict)
    """Starting points by language."""
    tests: list[Parameters] = field(default_factory=list)
    benchmarks: list[Parameters] = field(default_factory=list)
    hidden_tests: list[Parameters] = field(default_factory=list)
    hidden_benchmarks: list[Parameters] = field(default_factory=list)
    limits: StageLimits = field(default_factory=StageLimits)
    ranking_by: RankingBy = RankingBy.LAST
    baseline: str = ""
    """The file among ``sources`` that speedups are relative to; empty for the reference."""
    weights: list[float] = field(default_factory=list)
    """Of ``benchmarks``, then of ``hidden_benchmarks``, in the score; empty for equal ones."""
    partial: bool = False
    """Whether a benchmark that fails counts 0, and not the whole submission."""
    seed: int | None = None
    multi_gpu: bool = False
    libraries: list[str] = field(default_factory=list)
    """Libraries that CUDA C++ is compiled with, by name."""
    environment: str = ""
    """What submissions are built and run in, by a name that ``kernelcup env build`` gave it; empty for the default."""
    devices: list[str] = field(default_factory=list)
    """The file's ``gpus``: devices proposed for a leaderboard of this task."""
    harness: HarnessKind = HarnessKind.STANDARD
    """The harness that the file asks for: ``own`` if it ships its ``main`` and does not choose ``standard``."""
    near_twins: bool = True
    """False if changing one element of each input tensor would break a property that the task promises."""
    aliasing: bool = False
    """Whether outputs may share memory with inputs even if the reference's do not."""
    non_finite: bool = False
    """Whether an output element may be NaN or infinite where the reference's is finite."""
    wide_answers: bool = False
    """Whether an output element may lie far outside of the range of the reference's output."""
    any_answer: bool = False
    """Whether the checker is right to accept outputs that have little to do with the reference's."""
    dtypes: list[str] | None = None
    """Names of dtypes that outputs may have beside the reference's; None for the usual ones, by the task format."""
    prepare_timeout: int | None = None
    """Seconds that the `prepare` of a submission may take for a case; None if it is not called."""
    own_share: float | None = None
    """The least share of the time of its kernels, from 0 to 1, that kernels of no library must take for a result to
    rank; None for no rule."""
    waive_nulls: dict[str, str] = field(default_factory=dict)
    """Null submissions that this task may accept, each with the reason."""
    work: list[Work] = field(default_factory=list)
    """The least work of each of ``benchmarks``; empty if the task declares none."""
    hidden_work: list[Work] = field(default_factory=list)
    seeds_below: int | None = None
    """An upper bound, exclusive, for all drawn seeds; None leaves it to the leaderboard."""
    reference_s: list[float] = field(default_factory=list)
    """Seconds of a call of the reference with input and check, for each of ``benchmarks``, then of
    ``hidden_benchmarks``: measured when a leaderboard is made, and no part of the task's identity."""

    def accepted(self, harness: HarnessKind) -> tuple[Language, ...]:
        """Return the languages of submissions under a harness, the task's own first.

        Python tasks take CUDA C++ if the standard harness judges them and a reference tells the form of answers.
        """
        if self.accepts or self.lang is Language.CUDA or harness is HarnessKind.OWN:
            return tuple(self.accepts or [self.lang])
        has_form = re.search(r"\bref_kernel\b", self.sources.get("reference.py", "")) is not None
        return (Language.PYTHON, Language.CUDA) if has_form else (Language.PYTHON,)

    def language_of_template(self, text: str) -> Language:
        """Return the language of one of its templates; the C interface has its own words."""
        return Language.CUDA if "kc_args" in text else self.lang

    def submission_name_of(self, template: str) -> str:
        """Return the file name of a submission that begins as one of its templates."""
        if self.language_of_template(template) is self.lang:
            return self.submission_name
        return self.submission_name.rsplit(".", 1)[0] + Language.CUDA.endings[0]

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) over everything but the name: the identity of a task version."""
        return self._hash_without({"name", "reference_s"})

    def judging(self, harness: HarnessKind) -> str:
        """Return a hash that is equal for equal judging: only results with equal hashes rank together."""
        return f"{harness.value}:{self._hash_without(LEAVES_SCORES)}"

    def _hash_without(self, left_out: Collection[str]) -> str:
        body = to_json(self)
        unsaid = {key for key in LATER if not body[key]}
        return canonical_hash({key: body[key] for key in body.keys() - unsaid - set(left_out)})

    def data_sums(self) -> dict[str, tuple[int, str]]:
        """Return the size of each data file in bytes, and its SHA-256 in hex."""
        contents = {name: base64.b64decode(text) for name, text in self.data.items()}
        return {name: (len(each), hashlib.sha256(each).hexdigest()) for name, each in contents.items()}

    def to_json(self) -> Mapping[str, object]:
        """Return the JSON form that :meth:`from_json` reads."""
        body: Mapping[str, object] = to_json(self)
        return body

    @classmethod
    def from_json(cls, body: object) -> Task:
        """Build a task from :meth:`to_json`. Raise ``ProtocolError`` if it is not one."""
        return from_json(cls, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskInfo:
    """A task as participants see it."""

    name: str
    content_hash: str
    description: str
    lang: Language
    harness: HarnessKind
    ranking_by: RankingBy
    multi_gpu: bool
    limits: StageLimits
    tests: Sequence[Parameters]
    benchmarks: Sequence[Parameters]
    hidden_tests: int
    hidden_benchmarks: int
    hidden_cases: Sequence[Parameters] = ()
    """The hidden cases themselves, for those who manage the task's leaderboard."""
    prepare_timeout: int | None = None
    files: Sequence[str]
    templates: Sequence[str]
    submission_name: str
    packages: str = ""
    """What the environment of submissions has, with versions; empty if that is not known."""

    @classmethod
    def of(cls, task: Task) -> TaskInfo:
        """Build it from a task."""
        same = {each.name for each in fields(cls)} & {each.name for each in fields(task)}
        listed: dict[str, Any] = {
            "content_hash": task.content_hash,
            "hidden_tests": len(task.hidden_tests),
            "hidden_benchmarks": len(task.hidden_benchmarks),
            "files": sorted(task.sources),
            "templates": list(task.templates),
        }
        return cls(**{name: getattr(task, name) for name in same} | listed)
