"""The launcher of KernelCup for Modal."""

from __future__ import annotations
