"""How many examples a property is tried with: ``--hypothesis-profile short``, which `make test` gives, is an eighth.

How long an example takes depends on what else the machine does, so none has a deadline.
"""

from __future__ import annotations

from hypothesis import settings

EXAMPLES = 100

settings.register_profile("short", deadline=None, max_examples=EXAMPLES // 8)
settings.register_profile("whole", deadline=None, max_examples=EXAMPLES)
settings.load_profile("whole")


def examples(count: int) -> int:
    """Return the number of examples for a property that wants ``count`` of them, by the profile in force."""
    return max(1, count * settings().max_examples // EXAMPLES)
