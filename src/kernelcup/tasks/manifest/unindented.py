"""Restore the indentation of a ``task.yml`` that was copied from a web page which shows none."""

from __future__ import annotations

import re

from kernelcup.tasks.manifest.schema import TaskShape
from kernelcup.tasks.manifest.yaml_text import Document, read_yaml

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
