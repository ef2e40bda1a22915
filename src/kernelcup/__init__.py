"""KernelCup: competitions for the fastest GPU kernel, with results that everybody can trust."""

from __future__ import annotations

__version__ = "0.1.0"
