"""Ask for a second opinion on a submission while it is judged."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kernelcup.screen.findings import Screening

Look = Callable[[str], Screening]
"""Returns the findings in a text; never raises, and ends in time."""


class SecondOpinion:
    """The screening of a file in the background of its judging."""

    def __init__(self, look: Look, code: str) -> None:
        self._look, self._code = look, code
        self._found: Screening | None = None
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether :meth:`found` returns at once."""
        return not self._thread.is_alive()

    def found(self) -> Screening | None:
        """Wait for the end and return the findings; None if the screening itself failed."""
        self._thread.join()
        return self._found

    def _run(self) -> None:
        self._found = self._look(self._code)
