"""Replaying what was captured of a submission, in a process that never sees its host code.

Not used by jobs yet: ``docs/explanation/limits-of-this-version.md`` says what is missing. ``driver`` binds the CUDA
driver; ``graph_data`` is the form in which a captured graph travels; ``images``, ``pool`` and ``export`` run in the
contestant; ``window``, ``rebuild`` and ``start_gun`` in the timer.
"""

from __future__ import annotations
