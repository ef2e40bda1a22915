"""What KernelCup does: each function is one use case and opens its own transactions."""

from __future__ import annotations
