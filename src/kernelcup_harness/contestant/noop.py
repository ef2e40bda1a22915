"""A kernel that computes nothing, called like that of any submission, to measure what a call costs."""

from __future__ import annotations

from typing import Any

from kernelcup_harness.submission import forms


class Noop:
    """Returns an answer of the agreed form that was made before the call."""

    def __init__(self) -> None:
        self._answer: Any = None

    def prepare(self, tree: Any, table: Any) -> None:
        """Make the answer: tensors of the form's shapes, with any contents."""
        self._answer = forms.fresh(forms.decoded(tree, table))

    def __call__(self, _data: Any) -> Any:
        """Return the answer."""
        return self._answer


def nothing() -> None:
    """Do nothing: without a device there is nothing to wait for."""
