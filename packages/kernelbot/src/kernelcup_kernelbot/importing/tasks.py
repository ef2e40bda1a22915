"""Tasks from the form in which KernelBot keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kernelcup.app.boards.judgeable import why_not
from kernelcup.app.boards.judging import propose_harness
from kernelcup.domain import Device, Language, RankingBy, Task
from kernelcup.errors import InvalidTask
from kernelcup.tasks.folder import TASK_FILE
from kernelcup.tasks.loader import load_tree
from kernelcup.tasks.sources.trees import ArchiveTree
from kernelcup_harness.protocol import HarnessKind

SUBMISSION = "@SUBMISSION@"
AS_WRITTEN = (
    *("lang", "config", "tests", "benchmarks", "test_timeout", "benchmark_timeout", "ranked_timeout"),
    *("ranking_by", "seed", "multi_gpu", "libraries"),
)
"""Keys that `task.yml` has too."""


def read(
    row: Any, templates: Mapping[str, str], devices: Sequence[str], known: Sequence[Device]
) -> tuple[Task, HarnessKind, str]:
    """Return a leaderboard's task, its harness, and why it cannot be judged here; empty if it can."""
    try:
        task = load_tree(ArchiveTree("", _files(row, templates, devices)), row.name)
    except InvalidTask as error:
        return _kept(row), HarnessKind.OWN, "; ".join(problem.text for problem in error.problems)
    reasons = (why_not(task, name, known) for name in devices)
    return task, propose_harness(task), next((each for each in reasons if each is not None), "")


def _files(row: Any, templates: Mapping[str, str], devices: Sequence[str]) -> dict[str, bytes]:
    """Return the folder that the task was made of."""
    stored = row.task
    files = {f"files/{name}": str(text).encode() for name, text in stored.get("files", {}).items()}
    listed = [
        {"name": name, "source": SUBMISSION if text == SUBMISSION else f"files/{name}"}
        for name, text in stored.get("files", {}).items()
    ]
    starts = {}
    for number, (language, code) in enumerate(templates.items()):
        ending = "cu" if language in ("CUDA", "HIP") and stored.get("lang") == "cu" else "py"
        starts[language] = f"templates/{number}.{ending}"
        files[starts[language]] = code.encode()
    body = {key: stored[key] for key in AS_WRITTEN if stored.get(key) not in (None, [])}
    body |= {
        "files": listed,
        "templates": starts,
        "description": row.description or "",
        "gpus": list(devices),
    }
    return files | {TASK_FILE: json.dumps(body, ensure_ascii=False).encode()}  # JSON is YAML


def _kept(row: Any) -> Task:
    """Return what is shown of a task that cannot be judged here."""
    stored = row.task
    files = {str(name): str(text) for name, text in stored.get("files", {}).items() if text != SUBMISSION}
    lang = Language.CUDA if stored.get("lang") == Language.CUDA.value else Language.PYTHON
    ranked_by = stored.get("ranking_by")
    return Task(
        name=row.name,
        description=row.description or "",
        lang=lang,
        sources=files,
        ranking_by=RankingBy(ranked_by) if ranked_by in set(RankingBy) else RankingBy.LAST,
        harness=HarnessKind.OWN,
    )
