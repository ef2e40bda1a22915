from __future__ import annotations

from pathlib import Path

import pytest

from kernelcup.tasks.manifest import schema, size_limits

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "task-format.md"
SHAPES = [
    shape
    for shape in vars(schema).values()
    if isinstance(shape, type) and shape.__module__ == schema.__name__
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_key_is_documented(shape):
    text = PAGE.read_text(encoding="utf-8")
    assert [key for key in shape.model_fields if f"`{key}`" not in text] == []


@pytest.mark.parametrize(
    "limit",
    [
        f"{size_limits.MAX_ZIP_BYTES // size_limits.MIB} MiB",
        f"{size_limits.MAX_TASK_BYTES // size_limits.MIB} MiB",
        f"{size_limits.MAX_FILE_BYTES // size_limits.MIB} MiB",
        f"{size_limits.MAX_PYTHON_BYTES >> 10} KiB",
        f"{size_limits.MAX_YAML_BYTES >> 10} KiB",
        f"{size_limits.MAX_ZIP_ENTRIES} entries",
        f"{size_limits.MAX_ZIP_RATIO} times",
        f"{size_limits.MAX_TIMEOUT_S} s",
        f"{size_limits.MAX_YAML_DEPTH} levels",
        f"{size_limits.MAX_YAML_NODES:,} values",
    ],
)
def test_every_limit_is_documented(limit):
    assert limit in PAGE.read_text(encoding="utf-8")
