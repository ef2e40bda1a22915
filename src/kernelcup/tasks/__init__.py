"""Three ways to write a task down, one :class:`~kernelcup.domain.Task`.

Nothing here runs a task's code: Python is read with :mod:`ast`, YAML as plain data.
"""

from __future__ import annotations
