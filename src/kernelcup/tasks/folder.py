"""Load a task folder: ``task.yml``, the files that it names, and the figures of its statement."""

from __future__ import annotations

import base64
import dataclasses
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kernelcup.domain import Language, StageLimits, Task
from kernelcup.tasks.manifest.cases import read_cases
from kernelcup.tasks.manifest.harness_choice import Configuration, check_c_reference, read_configuration
from kernelcup.tasks.manifest.null_waivers import check_waivers
from kernelcup.tasks.manifest.problems import Findings, single_problem
from kernelcup.tasks.manifest.reference import check_reference, parse_sources
from kernelcup.tasks.manifest.schema import TaskShape
from kernelcup.tasks.manifest.score import read_score
from kernelcup.tasks.manifest.validation import validate, validate_rest
from kernelcup.tasks.manifest.work import read_work
from kernelcup.tasks.manifest.yaml_text import Document, read_yaml
from kernelcup.tasks.sources.files import SourceReader, Sources, read_data, read_sources, read_templates
from kernelcup.tasks.sources.trees import Absent, Tree, Unreadable, locate
from kernelcup_harness.protocol import HarnessKind, Parameters

FIGURE = re.compile(r"!\[[^\]\n]*\]\(([\w./-]+)\)")
"""A figure of the folder in a statement; its name has no scheme and no host."""
SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".jpg": b"\xff\xd8\xff", ".jpeg": b"\xff\xd8\xff"}
"""The kinds that are shown: of SVG a part could be a script."""
MOST_BYTES = 1 << 20
"""Of one figure."""


def read_figures(description: str, tree: Tree, base: str) -> dict[str, str]:
    """Return the figures that a statement shows, in base64 by file name; :func:`remarks` names the others."""
    found: dict[str, str] = {}
    for name in FIGURE.findall(description):
        with suppress(Unreadable):
            content = tree.read(locate(base, name))
            signature = SIGNATURES.get(name[name.rfind(".") :].lower())
            if signature and content.startswith(signature) and len(content) <= MOST_BYTES:
                found[name] = base64.b64encode(content).decode()
    return found


def remarks(task: Task) -> Iterator[str]:
    """Yield what of a statement no page shows as its author meant it."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", task.description, flags=re.DOTALL)
    for name in set(FIGURE.findall(text)) - set(task.figures):
        yield f"description: `{name}` is not shown: the folder has no .png or .jpg of at most 1 MiB by this name"
    if html := re.search(r"</?[a-z][a-z0-9]*\b[^<>\n]*>", text, re.IGNORECASE):
        yield f"description: `{html[0]}` is shown as it is written: statements are Markdown without HTML"
    if far := re.search(r"!\[[^\]\n]*\]\((?:\w+:|//)[^)]*\)", text):
        yield f"description: `{far[0]}` is not shown: figures lie in the task's folder"


TASK_FILE = "task.yml"
# Replacements for invalid required keys, so that the rest is checked as well.
AS_WRITTEN = (
    *("description", "lang", "accepts", "ranking_by", "seed", "multi_gpu", "libraries", "environment"),
    *("baseline", "weights", "partial"),
    *("seeds_below", "near_twins", "aliasing", "non_finite", "dtypes", "own_share", "waive_nulls"),
    *("wide_answers", "any_answer", "prepare_timeout"),
)
"""Keys that become fields of the task without a change."""
STAND_INS: dict[str, Any] = {"lang": Language.PYTHON, "files": []}


def load_folder(tree: Tree, base: str, name: str, *, harness: HarnessKind | None = None) -> Task:
    """Load the task in folder ``base`` of ``tree``; ``harness`` overrides the harness that it chooses itself.

    Raise ``InvalidTask`` with all its problems.
    """
    path = posixpath.join(base, TASK_FILE)
    label = tree.label(path)
    try:
        findings = Findings(label, read_task_yaml(tree.read(path)))
    except Absent as error:
        raise single_problem(label, f"{error}; a task folder needs a `{TASK_FILE}`") from error
    except Unreadable as error:
        raise single_problem(label, str(error)) from error
    raw = findings.document.value
    if raw is None:
        if not findings.problems:
            findings.at_value((), "is empty; it needs at least `files`, `lang` and `benchmarks`")
        findings.raise_any()
    return _Folder(tree, base, name, findings, harness).task(raw)


class _Folder:
    """One reading of one ``task.yml``."""

    def __init__(
        self, tree: Tree, base: str, name: str, findings: Findings, harness: HarnessKind | None
    ) -> None:
        self.tree = tree
        self.base = base
        self.name = name
        self.findings = findings
        self.harness = harness

    def task(self, raw: Any) -> Task:
        shape, bad = self.shape(raw)
        sources = self.sources(shape, bad)
        data = read_data(shape.data, sources, self.tree, self.base, self.findings)
        templates = read_templates(shape.templates, self.tree, self.base, self.findings)
        figures = read_figures(shape.description, self.tree, self.base)
        configuration = self.configuration(shape, sources, bad)
        cases = self.cases(shape, bad)
        check_waivers(shape, self.findings)
        work = read_work(shape, self.findings)
        self.reference(shape, sources, configuration, bad)
        if shape.prepare_timeout is not None:
            self.prepare(shape, configuration)
        if not bad & {"files", "lang", "config", "ranking_by", "benchmarks", "hidden_benchmarks"}:
            reader = SourceReader(self.tree, self.base, self.findings)
            read_score(shape, sources, configuration.harness, reader, self.findings)
        self.findings.raise_any()
        return Task(
            name=self.name,
            sources=sources.texts,
            data=data,
            figures=figures,
            submission_name=sources.submission_name or "submission.py",
            main=configuration.main,
            cuda=configuration.cuda,
            templates=templates,
            tests=cases["tests"],
            benchmarks=cases["benchmarks"],
            hidden_tests=cases["hidden_tests"],
            hidden_benchmarks=cases["hidden_benchmarks"],
            limits=_limits(shape),
            devices=shape.gpus,
            harness=configuration.harness,
            work=work["benchmarks"],
            hidden_work=work["hidden_benchmarks"],
            **{name: getattr(shape, name) for name in AS_WRITTEN},
        )

    def cases(self, shape: TaskShape, bad: frozenset[str]) -> dict[str, list[Parameters]]:
        cases = read_cases(shape, self.findings)
        if not shape.benchmarks and "benchmarks" not in bad:
            self.findings.at_key(("benchmarks",), "a ranking needs at least one benchmark")
        return cases

    def shape(self, raw: Any) -> tuple[TaskShape, frozenset[str]]:
        """Return the valid part of the top level, and the names of its invalid keys."""
        validate(TaskShape, raw, (), self.findings)
        if not isinstance(raw, dict):
            self.findings.raise_any()
        return validate_rest(TaskShape, raw, STAND_INS)

    def sources(self, shape: TaskShape, bad: frozenset[str]) -> Sources:
        if "files" in bad:
            return Sources()
        sources = read_sources(shape.files, self.tree, self.base, self.findings)
        name = sources.submission_name
        if name and shape.lang is Language.PYTHON and "lang" not in bad and not _is_module(name):
            path = ("files", sources.listed[name], "name")
            self.findings.at_value(path, f"`{name}` must be a module such as `submission.py`")
        return sources

    def configuration(self, shape: TaskShape, sources: Sources, bad: frozenset[str]) -> Configuration:
        if bad & {"files", "lang", "config"}:
            # The harness cannot be determined: assume the kind that requires least.
            return Configuration(HarnessKind.OWN)
        found = read_configuration(shape, sources, self.findings)
        if self.harness is None:
            return found
        if self.harness is HarnessKind.OWN and found.main is None:
            self.findings.at_key(
                ("config",), "the task ships no harness of its own: `config.main` names none"
            )
        return dataclasses.replace(found, harness=self.harness)

    def prepare(self, shape: TaskShape, configuration: Configuration) -> None:
        if shape.lang is Language.CUDA:
            text = "is for submissions in Python: the C interface has no `prepare`"
            self.findings.at_key(("prepare_timeout",), text)
        elif configuration.harness is HarnessKind.OWN:
            text = "only the standard harness calls `prepare`: write `harness: standard`"
            self.findings.at_key(("prepare_timeout",), text)

    def reference(
        self, shape: TaskShape, sources: Sources, configuration: Configuration, bad: frozenset[str]
    ) -> None:
        both = shape.lang is Language.PYTHON and configuration.harness is HarnessKind.STANDARD
        for index, language in enumerate(shape.accepts):
            if not both and language is not shape.lang:
                text = f"`{language}` cannot be judged: only Python tasks of the standard harness take both"
                self.findings.at_value(("accepts", index), text)
        modules = parse_sources(sources, self.findings)
        if shape.lang is Language.PYTHON and not bad & {"files", "lang"}:
            check_reference(shape, sources, modules, configuration.harness, self.findings)
        elif shape.lang is Language.CUDA and configuration.cuda is not None:
            check_c_reference(sources, configuration.harness, self.findings)


def _limits(shape: TaskShape) -> StageLimits:
    return StageLimits(
        test_s=shape.test_timeout, benchmark_s=shape.benchmark_timeout, ranked_s=shape.ranked_timeout
    )


def _is_module(name: str) -> bool:
    return name.endswith(".py") and name.removesuffix(".py").isidentifier()


KEY_LINE = re.compile(rf"({'|'.join(TaskShape.model_fields)}):(.*)")
"""A line with one of the keys of the top level."""


def read_task_yaml(content: bytes) -> Document:
    """Parse a ``task.yml``; its problems are added to ``flaws`` and never raised.

    If it has flaws and no line of it is indented, the text below a key without a value is taken as that key's
    value, up to an empty line, a comment or the next key of the top level.
    """
    document = read_yaml(content)
    if not document.flaws or re.search(rb"^[ \t]", content, re.MULTILINE):
        return document
    try:
        restored = read_yaml(_indented(content.decode("utf-8-sig")))
    except UnicodeDecodeError:
        return document
    return document if restored.flaws else restored


def _indented(text: str) -> bytes:
    lines, below = [], False
    for line in text.splitlines():
        key = KEY_LINE.fullmatch(line)
        if key or not line.strip() or line.startswith("#"):
            below = key is not None and not key[2].strip()
            lines.append(line)
        else:
            lines.append(f"  {line}" if below else line)
    return "\n".join(lines).encode()
