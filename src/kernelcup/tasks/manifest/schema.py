"""The shapes of ``task.yml`` and of a problem set, one pydantic model for each mapping.

Lists whose entries are checked one by one (files, cases, problems) are plain lists here, so that an invalid
entry does not hide problems of the others. A key with an empty value counts as absent.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from kernelcup.domain import Language, RankingBy
from kernelcup.tasks.manifest.size_limits import MAX_TIMEOUT_S
from kernelcup_harness.protocol import FEWEST_SEEDS, HarnessKind, Precision

Timeout = Annotated[int, Field(gt=0, le=MAX_TIMEOUT_S)]
Name = Annotated[str, Field(min_length=1)]
Tolerance = Annotated[float | None, Field(ge=0, strict=False, allow_inf_nan=False)]


def _identifier(value: str) -> str:
    if not (value.isascii() and value.isidentifier()):
        raise PydanticCustomError("identifier", "must be an identifier: letters, digits and `_`")
    return value


def _flag(value: str) -> str:
    if not value.startswith("-"):
        raise PydanticCustomError("flag", "must start with `-`")
    return value


def _define(value: object) -> object:
    """Accept ``{TILE: 16}`` as well as ``{TILE: "16"}``, since readers see no difference."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Amount = Annotated[str, Field(min_length=1), BeforeValidator(_define)]


class Shape(BaseModel):
    """A mapping with exactly these keys and exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TaskShape(Shape):
    """The top level of ``task.yml``."""

    files: list[Any]
    lang: Annotated[Language, Field(strict=False)]
    accepts: list[Annotated[Language, Field(strict=False)]] = []
    data: list[Name] = []
    description: str = ""
    config: dict[str, Any] = {}
    templates: dict[Name, Name] = {}
    tests: list[Any] = []
    benchmarks: list[Any] = []
    hidden_tests: list[Any] = []
    hidden_benchmarks: list[Any] = []
    test_timeout: Timeout = 180
    benchmark_timeout: Timeout = 180
    ranked_timeout: Timeout = 180
    ranking_by: Annotated[RankingBy, Field(strict=False)] = RankingBy.LAST
    prepare_timeout: Timeout | None = None
    baseline: str = ""
    weights: list[Annotated[float, Field(strict=False)]] = []
    partial: bool = False
    seed: int | None = None
    multi_gpu: bool = False
    libraries: list[Name] = []
    environment: str = ""
    gpus: list[Name] = []
    harness: Annotated[HarnessKind | None, Field(strict=False)] = None
    seeds_below: Annotated[int | None, Field(ge=FEWEST_SEEDS)] = None
    near_twins: bool = True
    aliasing: bool = False
    non_finite: bool = False
    wide_answers: bool = False
    any_answer: bool = False
    dtypes: list[Name] | None = None
    own_share: Annotated[float | None, Field(gt=0, le=1)] = None
    waive_nulls: dict[str, str] = {}
    work: dict[str, Any] | None = None


class FileShape(Shape):
    """One entry of ``files``."""

    name: Name
    source: Name


class WorkShape(Shape):
    """``work`` of a task or of a timed case: expressions over the case's keys."""

    bytes: Amount | None = None
    written: Amount | None = None
    flops: Amount | None = None
    link_bytes: Amount | None = None
    precision: Annotated[Precision | None, Field(strict=False)] = None


class PythonConfigShape(Shape):
    """``config`` of a ``lang: py`` task."""

    main: Name | None = None


class CudaConfigShape(Shape):
    """``config`` of a ``lang: cu`` task."""

    sources: list[Name] = []
    include_dirs: list[Name] = []
    defines: dict[Annotated[str, AfterValidator(_identifier)], Annotated[str, BeforeValidator(_define)]] = {}
    compile_flags: list[Annotated[str, AfterValidator(_flag)]] = []
    rtol: Tolerance = None
    atol: Tolerance = None


class ProblemSetShape(Shape):
    """The top level of a problem set."""

    name: Name
    deadline: str = ""
    description: str = ""
    problems: Annotated[list[Any], Field(min_length=1)]


class ProblemEntryShape(Shape):
    """One entry of ``problems``."""

    directory: Name
    name: Name
    deadline: str = ""
    gpus: list[Name] = []
