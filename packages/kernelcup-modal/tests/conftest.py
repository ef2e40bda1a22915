"""A home of its own for the tests, as those of KernelCup have it."""

from __future__ import annotations

import homes

homes.move_out()
