"""Size limits for tasks. ``docs/reference/task-format.md`` repeats these."""

from __future__ import annotations

MIB = 1 << 20

MAX_YAML_BYTES = 256 << 10
MAX_PYTHON_BYTES = 256 << 10
"""Of all Python files of a task: a syntax tree takes a hundred times the memory of its text, and 3 s for each MiB."""
MAX_PARSED_BYTES = 1 * MIB
"""Of one file: tasks that version 0.1.0 stored have files of up to this size."""
MAX_FILE_BYTES = 5 * MIB
MAX_TASK_BYTES = 50 * MIB
MAX_DATA_BYTES = 8 * MIB
"""A job carries the data to its machine, in base64."""
MAX_ZIP_BYTES = 10 * MIB
MAX_ZIP_ENTRIES = 1000
MAX_ZIP_RATIO = 200
RATIO_FREE_BYTES = 1 * MIB
"""Entries up to this size may have any compression ratio."""

MAX_YAML_DEPTH = 20
MAX_YAML_NODES = 10_000
"""Counted with aliases expanded, to refuse alias bombs."""

MAX_TIMEOUT_S = 24 * 60 * 60
INT_RANGE = range(-(2**63), 2**63)
