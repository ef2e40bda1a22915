"""The command line."""

from __future__ import annotations

from kernelcup.cli.entry import main

__all__ = ["main"]
