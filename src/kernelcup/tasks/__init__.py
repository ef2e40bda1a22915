"""Load tasks from three formats into one :class:`~kernelcup.domain.Task`.

Nothing here runs a task's code: Python is parsed with :mod:`ast`, YAML as plain data.
"""

from __future__ import annotations
