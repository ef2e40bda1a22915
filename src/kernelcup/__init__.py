"""KernelCup: competitions for the fastest GPU kernel, with results that can be trusted."""

from __future__ import annotations

__version__ = "0.1.0"
