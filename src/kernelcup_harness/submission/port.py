"""The port to languages: files of a submission become something to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

Kernel = Callable[[Any], Any]
"""Takes the input of a task and returns the answer."""


class NotCompiled(Exception):
    """A submission does not compile, or lacks its function; the text is for its author."""

    is_for_people = True


class FunctionFailed(Exception):
    """A call reported a failure; the text is for the submission's author."""

    is_for_people = True


class SubmissionLanguage(Protocol):
    """Builds and loads submissions of one language. Files lie in the working folder."""

    name: str
    """As people write it."""
    runs_code: bool
    """Whether a build runs code of the submission. Otherwise its result is made from text by compilers alone."""

    def trouble(self, entry: Path, environ: Mapping[str, str]) -> str:
        """Return why this machine cannot build a submission, empty if it can."""

    def builds(self, source: str) -> bool:
        """Return whether a submission compiles something before its first call."""

    def build(self, entry: Path) -> None:
        """Compile into the folders of builds (``BUILD_FOLDERS``). Runs without a GPU. Raise :class:`NotCompiled`."""

    def load(self, entry: Path) -> Kernel:
        """Return what calls the submission; build it if that was not done. Raise :class:`NotCompiled`."""

    def preparing(self, entry: Path) -> Callable[..., Any] | None:
        """Return the `prepare` of a submission that is loaded, None if it has none."""


class WantsForm:
    """A kernel whose answers are allocated by its caller, who therefore has to know their form."""

    def expect(self, form: Any) -> None:
        """Note the form of the next answers: a tree and its table, with any values; None if it is not known."""
        raise NotImplementedError


def expect(kernel: Any, form: Any) -> None:
    """Tell a kernel the form of its next answers, if it wants to know."""
    if isinstance(kernel, WantsForm):
        kernel.expect(form)
