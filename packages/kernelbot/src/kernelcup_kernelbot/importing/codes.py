"""The code of submissions, from bytes that are not always text."""

from __future__ import annotations

import base64
import posixpath

from kernelcup.app.submissions.queries.submissions import hash_of
from kernelcup.clean_text import clean_text
from kernelcup_harness.protocol import SourceTree
from kernelcup_kernelbot.importing import bulk

WHOLE = ".base64"
"""Ending of the file beside a code that is no text: its bytes."""
NAME = "submission.py"
LONGEST_NAME = 200


def tree_of(name: str, content: bytes) -> SourceTree:
    """Return a code as it is stored here.

    Text becomes one file. Bytes that are no UTF-8, or have a NUL, become two: as text with U+FFFD, and whole.
    """
    text = content.decode("utf-8", "replace")
    if clean_text(text).encode() == content:
        return SourceTree.of(text, name)
    whole = base64.b64encode(content).decode()
    return SourceTree(files={name: clean_text(text), name + WHOLE: whole}, entry=name)


def file_name(stored: str | None) -> str:
    """Return the name of a submission's file without folders; KernelBot keeps any text."""
    name = posixpath.basename((stored or "").replace("\\", "/")).strip()
    return name if name.isprintable() and 0 < len(name) <= LONGEST_NAME and name.strip(".") else NAME


def row_of(code: SourceTree) -> bulk.Values:
    """Return the row of a code."""
    files = {"": code.code} if len(code.files) == 1 else code.files
    return {"hash": hash_of(code), "files": files}
