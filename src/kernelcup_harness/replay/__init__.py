"""Replays a submission's captured calls in a process that never sees its host code.

Not used by jobs yet: ``docs/explanation/limits-of-this-version.md`` lists what is missing. ``driver`` binds the CUDA
driver; ``graph_data`` is the exchange format of captured graphs; ``images``, ``pool`` and ``export`` run in the
contestant; ``window``, ``rebuild`` and ``start_gun`` in the timer.
"""

from __future__ import annotations
