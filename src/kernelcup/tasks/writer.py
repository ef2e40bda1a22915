"""Write a task as a folder or a single file, from which it can be loaded again."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from kernelcup.domain import Task, TaskForm
from kernelcup.errors import Conflict
from kernelcup.names import check_board_name
from kernelcup.tasks.folder import TASK_FILE
from kernelcup.tasks.manifest.work import AMOUNTS
from kernelcup.tasks.sources.files import SUBMISSION
from kernelcup_harness.protocol import Parameters, Work, to_json

WRITTEN = frozenset(
    {
        "name",
        "description",
        "lang",
        "form",
        "sources",
        "data",
        "figures",
        "submission_name",
        "main",
        "cuda",
        "templates",
    }
    | {"tests", "benchmarks", "hidden_tests", "hidden_benchmarks", "limits", "devices", "harness"}
    | {"work", "hidden_work", "reference_s"}
)
"""Fields of a task that ``task.yml`` has in another form, or not at all; the others have a key of their name."""


def write_task(task: Task, directory: Path) -> list[Path]:
    """Write a task into ``directory``, which must be empty or absent; return the files, the task first.

    Hidden cases are not written. Raise ``Conflict`` if the directory is not empty.
    """
    claim(directory)
    written = []
    for name, content in files_of(task).items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        written.append(target)
    return written


def claim_for_task(directory: Path) -> None:
    """Create the folder of a task, which gives the task its name.

    Raise ``Conflict`` if it is not empty, ``InvalidValue`` for a name that no leaderboard can have.
    """
    check_board_name(directory.resolve().name, "Task")
    claim(directory)


def claim(directory: Path) -> None:
    """Create a folder. Raise ``Conflict`` if it is not empty."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Conflict(f"{directory} is a file") from error
    if any(directory.iterdir()):
        raise Conflict(f"{directory} is not empty; name a new folder")


def files_of(task: Task) -> dict[str, bytes]:
    """Return the contents of a task's files by name, the one that defines the task first."""
    texts = {name: text.encode() for name, text in _texts_of(task).items()}
    return texts | figures_of(task) | decoded(task.data)


def _texts_of(task: Task) -> dict[str, str]:
    templates = template_files(task)
    by_name = {templates[language]: text for language, text in task.templates.items()}
    if task.form is TaskForm.SINGLE_FILE:
        ((name, text),) = task.sources.items()
        return {f"{task.name}{PurePosixPath(name).suffix}": text, **by_name}
    return {TASK_FILE: task_text(task), **task.sources, **by_name}


def figures_of(task: Task) -> dict[str, bytes]:
    """Return the figures of a task's statement by file name."""
    return decoded(task.figures)


def decoded(files: Mapping[str, str]) -> dict[str, bytes]:
    """Return the contents of files in base64."""
    return {name: base64.b64decode(text) for name, text in files.items()}


def template_files(task: Task) -> dict[str, str]:
    """Return the names of the templates' files, by language."""
    taken = {TASK_FILE, f"{task.name}{task.lang.endings[0]}", *task.sources, *task.data}
    names = {}
    for language, text in task.templates.items():
        ending = PurePosixPath(task.submission_name_of(text)).suffix
        name = stem = f"template_{re.sub(r'[^a-z0-9]+', '_', language.lower()).strip('_') or 'x'}"
        number = 1
        while f"{name}{ending}" in taken:
            number += 1
            name = f"{stem}_{number}"
        names[language] = f"{name}{ending}"
        taken.add(names[language])
    return names


def task_text(task: Task) -> str:
    """Return a task's ``task.yml``."""
    entries = [{"name": task.submission_name, "source": SUBMISSION}]
    entries += [{"name": name, "source": name} for name in task.sources]
    body: dict[str, Any] = {
        "lang": task.lang.value,
        "files": entries,
        "data": list(task.data),
        "description": task.description,
        "config": _config(task),
        "harness": task.harness.value,
        "templates": template_files(task),
        "tests": task.tests,
        "benchmarks": _timed(task.benchmarks, task.work),
        "test_timeout": task.limits.test_s,
        "benchmark_timeout": task.limits.benchmark_s,
        "ranked_timeout": task.limits.ranked_s,
        "gpus": task.devices,
        **_others(task),
    }
    return "\n".join(_entry(key, value) for key, value in body.items() if value or value is False) + "\n"


def _config(task: Task) -> Mapping[str, object]:
    if task.cuda is not None:
        told: Mapping[str, object] = to_json(task.cuda)
        return {key: value for key, value in told.items() if value}
    return {} if task.main is None else {"main": task.main}


def _timed(cases: Sequence[Parameters], works: Sequence[Work]) -> list[Mapping[str, object]]:
    """Return cases with their declared work."""
    told = [_work(work) for work in works] or [{} for _ in cases]
    return [{**case, **({"work": work} if work else {})} for case, work in zip(cases, told, strict=True)]


def _work(work: Work) -> dict[str, object]:
    body: dict[str, object] = {name: repr(value) for name in AMOUNTS if (value := getattr(work, name))}
    return {**body, "precision": work.precision} if work.precision else body


def _others(task: Task) -> dict[str, object]:
    """Return the fields with the same name in ``task.yml`` that do not have their default."""
    body = task.to_json()
    usual = Task(name=task.name, sources={}).to_json()
    names = [field.name for field in dataclasses.fields(Task) if field.name not in WRITTEN]
    return {name: body[name] for name in names if body[name] != usual[name]}


def _entry(key: str, value: object) -> str:
    if isinstance(value, list):
        return "\n".join([f"{key}:", *(f"  - {_flow(each)}" for each in value)])
    if isinstance(value, str) and _is_block(value):
        return "\n".join([f"{key}: |", *(f"  {line}" if line else "" for line in value[:-1].split("\n"))])
    return f"{key}: {_flow(value)}"


def _is_block(text: str) -> bool:
    """Return whether a text can be written unchanged as an indented block of YAML."""
    ends_once = text.endswith("\n") and not text.endswith("\n\n")
    return ends_once and text[0].strip() != "" and all(each == "\n" or each.isprintable() for each in text)


def _flow(value: object) -> str:
    """Return a value as JSON, which is also YAML, with escapes for characters that YAML does not allow."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
