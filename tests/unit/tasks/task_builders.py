"""Writes tasks for tests; every part has a working default and can be overridden."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelcup.errors import InvalidTask
from kernelcup.tasks.loader import load_task

REFERENCE = """\
def generate_input(size: int, seed: int):
    return [seed] * size


def ref_kernel(data):
    return data


def check_implementation(data, output):
    return data == output
"""

SINGLE_FILE = '''\
"""Add two vectors."""


def generate_input():
    return [1.0]


def ref_kernel(data):
    return data


def check_implementation(user_output, reference_output) -> bool:
    return user_output == reference_output
'''

FILES: Mapping[str, str] = {
    "task.py": "input_t = list\n",
    "reference.py": REFERENCE,
    "template.py": "def custom_kernel(data):\n    return data\n",
}

KEYS: Mapping[str, Any] = {
    "files": [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "task.py", "source": "task.py"},
        {"name": "reference.py", "source": "reference.py"},
    ],
    "lang": "py",
    "description": "Copy.",
    "templates": {"Python": "template.py"},
    "tests": [{"size": 4, "seed": 1}],
    "benchmarks": [{"size": 64, "seed": 2}],
}

DROP = object()


def task_yml(**overrides: Any) -> str:
    """JSON is YAML, and says exactly what the test means. DROP leaves a key out."""
    merged = {**KEYS, **overrides}
    return json.dumps({key: value for key, value in merged.items() if value is not DROP})


def files_with(*more: tuple[str, str]) -> list[dict[str, str]]:
    """The default ``files`` and some more of (name, source)."""
    return [*KEYS["files"], *({"name": name, "source": source} for name, source in more)]


def write_task(
    folder: Path, yml: str | bytes | None = None, extra: Mapping[str, str | bytes] | None = None, **keys: Any
) -> Path:
    """Write a task folder: ``yml`` as it is or the default with ``keys``, and ``extra`` files."""
    text = task_yml(**keys) if yml is None else yml
    for name, content in {**FILES, **(extra or {}), "task.yml": text}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def task_files(prefix: str = "", extra: Mapping[str, str] | None = None, **keys: Any) -> dict[str, str]:
    """The same as a mapping, for zips."""
    files = {**FILES, "task.yml": task_yml(**keys), **(extra or {})}
    return {f"{prefix}{name}": text for name, text in files.items()}


def write_zip(path: Path, files: Mapping[str, str | bytes]) -> Path:
    path.write_bytes(zip_bytes(files))
    return path


def zip_bytes(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def problems_of(path: Path) -> list[str]:
    """The problem lines of a task without its folder; empty when it loads."""
    try:
        load_task(path)
    except InvalidTask as error:
        prefix = f"{path.parent if path.is_file() else path}/"
        return [line.replace(prefix, "") for line in str(error).splitlines()]
    return []
