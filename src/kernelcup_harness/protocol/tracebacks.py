"""Messages for participants: without frames and paths of the machine that judges. Its log keeps the whole text."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

FRAME = re.compile(
    r'^(?P<indent> *)File "(?P<file>[^"\n]+)", line \d+.*\n?(?:(?P=indent) +.*\n?)*', re.MULTILINE
)
"""A frame of a Python traceback, with the lines below that show its code."""
EMPTY = re.compile(r"Traceback \(most recent call last\):\n(?! *File )")
FOLDERS = re.compile(r"(?<![\w.:/])/(?:[\w.+~-]+/){2,}")
"""The folders of an absolute path, from the third level on."""


def for_participants(text: str, own_harness: Collection[str] = ()) -> str:
    """Return a text without the frames of files outside of the job's folder, and without absolute folders.

    Args:
        text: What went wrong; files of the job are named without their folder.
        own_harness: Names of files of the job whose frames are left out as well: the task's own harness.
    """

    def kept(frame: re.Match[str]) -> str:
        file = frame["file"]
        return "" if Path(file).is_absolute() or file in own_harness else frame[0]

    return FOLDERS.sub("", EMPTY.sub("", FRAME.sub(kept, text)))
