"""Run the static screen on a submission while it is judged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import PurePosixPath

from kernelcup.domain import Language
from kernelcup.screen.findings import Screening
from kernelcup.screen.kernelguard import SecondOpinion, with_opinion
from kernelcup.screen.run import screen
from kernelcup.services.submissions.admission import ENDINGS, base_name

Look = Callable[[str, str], Screening]
"""Returns the findings for a file name and its text; never raises, and ends in time."""


def is_native(file_name: str) -> bool:
    """Return whether a file is C++ or CUDA."""
    return PurePosixPath(base_name(file_name)).suffix.lower() in ENDINGS[Language.CUDA]


def screen_file(file_name: str, code: str, second_opinion: SecondOpinion | None = None) -> Screening:
    """Return the static screen's findings for a file. It never refuses one."""
    return with_opinion(screen(code, is_native=is_native(file_name)), code, second_opinion)


class Looking:
    """The screening of a file in the background of its judging."""

    def __init__(self, look: Look, file_name: str, code: str) -> None:
        self._look, self._file_name, self._code = look, file_name, code
        self._found: Screening | None = None
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def found(self) -> Screening | None:
        """Wait for the end and return the findings; None if the screening itself failed."""
        self._thread.join()
        return self._found

    def _run(self) -> None:
        self._found = self._look(self._file_name, self._code)
