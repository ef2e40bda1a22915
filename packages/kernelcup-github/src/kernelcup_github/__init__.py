"""The launcher of KernelCup for GitHub Actions."""

from __future__ import annotations
