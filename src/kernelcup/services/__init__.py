"""What KernelCup does: each function is one use, with its own transactions."""

from __future__ import annotations
